"""Features of a finished run, for the paper's KDE and t-SNE figures."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from emi_bench.data.stream import Stream
from emi_bench.methods import Method
from emi_bench.run.result import FeatureTable
from emi_bench.seeds import seed_for

MAX_TRAIN = 5000  # training images whose features are kept; the test set is kept whole
BATCH = 512


def extract_features(method: Method, stream: Stream, seed: int) -> FeatureTable:
    """Features of the whole test set and of a seeded sample of the training set."""
    data = stream.data
    rng = np.random.default_rng(seed_for(seed, "features"))
    n = len(data.y_train)
    kept = np.sort(rng.choice(n, size=min(n, MAX_TRAIN), replace=False))
    train = data.x_train[torch.from_numpy(kept).to(data.x_train.device)]
    rows = [
        F.normalize(method.embed(x).float(), dim=1).cpu()
        for images in (data.x_test, train)
        for x in torch.split(images, BATCH)
    ]
    labels = np.concatenate([data.y_test.numpy(), data.y_train.numpy()[kept]])
    task_of = {c: t for t, classes in enumerate(stream.tasks, 1) for c in classes}
    return FeatureTable(
        split=np.array(["test"] * len(data.y_test) + ["train"] * len(kept)),
        label=labels,
        task=np.array([task_of[int(c)] for c in labels]),
        features=torch.cat(rows).numpy(),
    )
