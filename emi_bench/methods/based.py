"""What MKD and CCL-DC share: a base method whose rows and terms they take, and its constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, cast

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator
from torch import nn

from emi_bench.draws import Draws
from emi_bench.methods.base import MethodConfig
from emi_bench.methods.derpp import DERpp
from emi_bench.methods.er import ER
from emi_bench.methods.er_ace import ERACE
from emi_bench.methods.rehearsal import Rehearsal
from emi_bench.methods.wrapper import Wrapper
from emi_bench.problem import Problem

BASES: dict[str, type[Rehearsal]] = {"er": ER, "er_ace": ERACE, "derpp": DERpp}
_FIXED = {"er": {"joint": True, "mem_iters": 1}}  # the ER of these papers
_SHARED = MethodConfig.model_fields.keys() - {"ema"}


class BasedConfig(MethodConfig):
    """Pixels and pooling are the base's unless given here. Optimiser and learning rate are the source's for this base;
    with another `optimizer` what is not given is the base's."""

    base: Literal["er", "er_ace", "derpp"] = "er"
    """The method it is built on; `er` in its joint form."""
    base_config: dict[str, Any] = Field(default_factory=dict)
    """Constants of the base's own: `view` of all, `mask` and `head` of ER-ACE, `alpha` and `beta` of DER++ ..."""

    recipes: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  #: the optimiser of the source, by base

    @model_validator(mode="before")
    @classmethod
    def _as_its_source_trains(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        recipe = cls.recipes.get(str(given.get("base", "er")), {})
        return {**recipe, **given} if given.get("optimizer") in (None, recipe.get("optimizer")) else dict(given)

    @field_validator("base_config")
    @classmethod
    def _known_to_the_base(cls, given: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        base = info.data.get("base", "er")
        own = BASES[base].config_class.model_fields.keys() - _SHARED - _FIXED.get(base, {}).keys() - {"ema"}
        if foreign := sorted(given.keys() - own):
            raise ValueError(f"'{foreign[0]}' is not one of the base's own constants: {', '.join(sorted(own))}")
        try:
            BASES[base].config_class(**given)
        except ValidationError as e:
            first = e.errors()[0]
            raise ValueError(f"{first['loc'][0]}: {first['msg']}") from e
        return given

    @classmethod
    def modern(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        base = given.get("base", "er")
        theirs = BASES[base].config_class.modern({}) if base in BASES else super().modern(given)  # refused later
        shared = {k: v for k, v in theirs.items() if k in _SHARED}
        own = {k: v for k, v in theirs.items() if k not in _SHARED and k not in _FIXED.get(base, {})}
        return shared | {"base_config": own}

    @classmethod
    def under_modern(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        usual = cls.modern(given)
        return usual | dict(given) | {"base_config": usual["base_config"] | dict(given.get("base_config") or {})}

    def of_base(self) -> MethodConfig:
        """The base's own config."""
        shared = {k: getattr(self, k) for k in _SHARED & self.model_fields_set}
        return BASES[self.base].config_class(**shared, **self.base_config, **_FIXED.get(self.base, {}))

    def resolve(self, problem: Problem) -> Self:
        base = self.of_base().resolve(problem)
        own = base.model_dump(mode="json", exclude=_SHARED | {"ema"} | _FIXED.get(self.base, {}).keys())
        usual = BASES[self.base].config_class().resolve(problem)  # a constant the base gets one day changes no id here
        own = {k: v for k, v in own.items() if k not in base.younger() or getattr(base, k) != getattr(usual, k)}
        return self.model_copy(update={k: getattr(base, k) for k in _SHARED} | {"base_config": own})


class Based(Wrapper):
    """A wrapper that takes the rows of its base, forwards them through networks of its own choice, and adds to its
    terms. The base does the bookkeeping: classes, retrieval, views, memory, optimiser."""

    inner: Rehearsal
    config_class: ClassVar[type[MethodConfig]] = BasedConfig

    def __init__(self, config: BasedConfig, problem: Problem, *, inner: Rehearsal) -> None:
        super().__init__(inner)
        self.config = config.resolve(problem)

    @classmethod
    def build(
        cls, config: MethodConfig, problem: Problem, *, weight_seed: int, draws: Draws, device: str = "cpu"
    ) -> Self:
        config = cast(BasedConfig, config).resolve(problem)
        base, of_base = BASES[config.base], config.of_base()
        net = cls.built_net(config, problem, weight_seed, device)
        memory = base.make_memory(of_base, problem).to(device)
        return cls(config, problem, inner=base(of_base, problem, net=net, memory=memory, draws=draws)).to(device)

    @classmethod
    def make_net(cls, config: MethodConfig, problem: Problem) -> nn.Module:
        c = cast(BasedConfig, config)
        return BASES[c.base].make_net(c.of_base(), problem)

    @classmethod
    def base_forwards(cls, config: MethodConfig, problem: Problem) -> float:
        c = cast(BasedConfig, config)
        return BASES[c.base].forwards(c.of_base(), problem)
