"""Augmentations of whole batches: functions of explicit parameters, samplers of these, and the methods' views."""

from emi_bench.data.views.diffaug import diffaug
from emi_bench.data.views.rotation import rot16, rot16_labels
from emi_bench.data.views.views import dvc_view, ocm_view, pcr_view, scr_view

__all__ = ["diffaug", "dvc_view", "ocm_view", "pcr_view", "rot16", "rot16_labels", "scr_view"]
