"""One small Ray cluster for all tests of a session; its second node can be killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A head with two CPUs and a fake card; drivers join it with `--address`."""
    os.environ["RAY_AUTH_MODE"] = "disabled"
    os.environ |= {"RAY_worker_niceness": "0"}  # busy machines would starve the workers
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "1"
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "num_gpus": 1, "include_dashboard": False})
    yield made
    made.shutdown()


@pytest.fixture
def address(cluster: Any) -> str:
    return str(cluster.address)
