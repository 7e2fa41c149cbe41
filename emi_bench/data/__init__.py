"""Data sets by name: `get_info` to plan, `load` to run, `register` to add one."""

from emi_bench.data.arrays import checked
from emi_bench.data.catalogue import dataset_names, get_info, register
from emi_bench.data.dataset import DataSet
from emi_bench.data.downloading import download
from emi_bench.data.info import DataInfo
from emi_bench.data.loading import Verdict, describe, load, verify
from emi_bench.data.own import OWN_FORMS
from emi_bench.data.places import data_root
from emi_bench.data.reduce import Reduction

__all__ = [
    "OWN_FORMS",
    "DataInfo",
    "DataSet",
    "Reduction",
    "Verdict",
    "checked",
    "data_root",
    "dataset_names",
    "describe",
    "download",
    "get_info",
    "load",
    "register",
    "verify",
]
