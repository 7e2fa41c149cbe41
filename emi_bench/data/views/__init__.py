"""Augmentations of whole batches: functions of explicit parameters, samplers of these, and the methods' views."""

from emi_bench.data.views.diffaug import diffaug
from emi_bench.data.views.randaugment import randaugment_view
from emi_bench.data.views.rotation import rot16, rot16_labels
from emi_bench.data.views.views import (
    crop_view,
    dvc_view,
    full_view,
    grey_crop_view,
    ocm_view,
    partial_view,
    pcr_view,
    scr_view,
)

__all__ = [
    "crop_view",
    "diffaug",
    "dvc_view",
    "full_view",
    "grey_crop_view",
    "ocm_view",
    "partial_view",
    "pcr_view",
    "randaugment_view",
    "rot16",
    "rot16_labels",
    "scr_view",
]
