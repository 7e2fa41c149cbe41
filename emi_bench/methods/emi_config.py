"""The constants and switches of EMI."""

from __future__ import annotations

from typing import ClassVar, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from emi_bench.methods.mutual_information import MutualInformationConfig
from emi_bench.nets.backbones import need_reduced
from emi_bench.problem import Problem


class LossWeights(BaseModel):
    """Factors of the five losses; the paper adds them plainly. The logit MSE, where it is on, belongs to `ocm`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dmi: float = Field(1.0, ge=0)
    rmi: float = Field(1.0, ge=0)
    smi: float = Field(1.0, ge=0)
    ce: float = Field(1.0, ge=0)
    ocm: float = Field(1.0, ge=0)

    def of(self, term: str) -> float:
        """The weight of a loss term by its name: `dmi_replay` has dmi's, `ntx_*` and `mse` have ocm's."""
        family = term.split("_")[0]
        return cast(float, getattr(self, {"ntx": "ocm", "mse": "ocm"}.get(family, family)))


class EMIConfig(MutualInformationConfig):
    """The defaults follow the paper, its displayed equations first; docs/methods/emi.md gives the reason for each."""

    replay_class_cap: int | None = Field(None, ge=1)
    """At most this many replay samples per class seen so far. None: the paper's 64, no cap. 7: OCM and OnPro."""
    alpha: float = Field(0.1, ge=0, le=1)
    """How far below the most similar intra-class pair an other-class sample of X may be and still enter S_i (paper)."""
    alpha_b: float = Field(0.2, ge=0, le=1)
    """The same for the replay batch X^b (paper)."""
    n_proto: int = Field(6, ge=1)
    """Stored images a prototype is the mean of, N_p (paper)."""
    dualnet: bool = True
    """Slow and fast net. Off: the plain reduced ResNet-18 of OCM (first row of the ablation)."""
    dmi: bool = True
    """Diversity loss on the slow features. Needs the DualNet."""
    rmi: bool = True
    """Representativeness loss between fast features and prototypes."""
    smi: bool = True
    """Separability loss between the prototypes of two views."""
    mi_reduction: Literal["log_sum", "sum_log"] = "log_sum"
    """Of A_i and B_i: the log of the sum (equation), or the sum of the logs (what OCM does over its positives)."""
    dmi_denominator: Literal["all", "no_pair"] = "all"
    """Whether the denominator of A_i has the terms of j = i (equation) or not."""
    dmi_threshold: Literal["exp", "cos"] = "exp"
    """Whether mu is taken on exp(cos / tau) (equation) or on the cosine."""
    dmi_pairs: Literal["off_diagonal", "with_self", "per_class"] = "off_diagonal"
    """Intra-class pairs that give s_max and s_mean: i != j of the batch, i = j too, or i != j of the anchor's class."""
    dmi_rows: Literal["identity", "rot16"] = "identity"
    """DMI on the untouched images, or on all sixteen arrangements with OCM's pseudo-labels as classes."""
    empty_anchor: Literal["zero", "drop"] = "zero"
    """An anchor with empty S_i counts as 0 in the mean over N (equation), or is left out of the mean."""
    proto_renorm: bool = True
    """Bring the mean of unit vectors back to unit length (OnPro)."""
    rmi_detach_proto: bool = False
    """Stop RMI's gradient at the prototypes; SMI has its gradient through them in any case."""
    smi_tau: float = Field(0.07, gt=0)
    """Temperature of SMI: the paper's one tau. OnPro uses 0.5 between prototypes."""
    smi_form: Literal["infonce", "ope"] = "infonce"
    """One direction across the views (equation), or OnPro's symmetric OPE."""
    ce_view: Literal["aug", "plain"] = "aug"
    """The classifier learns from views (OCM) or from the images themselves (equation read literally)."""
    first_task: Literal["algorithm1", "ocm"] = "algorithm1"
    """Replay from the second step on (Algorithm 1), or no replay in the first task (code of OCM and OnPro)."""
    ocm_logit_mse: bool = False
    """Add OCM's logit distillation; the paper's equation of L_ocm has only the three mutual-information terms."""
    detach_slow: bool = False
    """Stop the gradients of the fast losses at the slow maps; Algorithm 1 updates everything by all losses."""
    slow_head: Literal["linear", "mlp"] = "linear"
    """Head g on the slow features: one layer as in OCM, or DualNet's projector."""
    fast_net: Literal["chain", "same_level"] = "chain"
    """DualNet's published wiring, or the paper's equation read literally (only level 4 reaches the classifier)."""
    teacher_bn: Literal["train", "eval"] = "train"
    """Batch norm of the past model: statistics of the batch at hand (OCM), or its running statistics."""
    loss_weights: LossWeights = LossWeights()
    """Factors of the losses."""

    added: ClassVar[frozenset[str]] = frozenset({"dmi_pairs", "dmi_rows"})

    @model_validator(mode="after")
    def _dmi_has_slow_features(self) -> Self:
        if self.dmi and not self.dualnet:
            raise ValueError("dmi works on the slow features of the DualNet: with dualnet off, switch dmi off too")
        return self

    def resolve(self, problem: Problem) -> Self:
        if self.dualnet:
            need_reduced(problem.backbone, "EMI's fast net gates", ", or switch dualnet and dmi off")
        return super().resolve(problem)
