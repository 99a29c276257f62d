"""One step of a policy as a C99 header: forests, lines and a linear h, with the bits of the kernels."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.metadata import version
from importlib.resources import files
from string import Template
from textwrap import wrap
from typing import Any

import numpy as np

from simile._common.files import write_atomically
from simile.data.preparation import CLOSE
from simile.data.states import Horizon
from simile.data.timing import tell_lead
from simile.errors import ArgumentError
from simile.models import Forest, Model, PiecewiseLinear, parts_of
from simile.models.coupling import check_apart
from simile.models.regularizers import Autoregressor
from simile.online import Extrapolate
from simile.online.engines import UserBounds
from simile.online.export import c99_text as text
from simile.online.export.c99_tables import Tables
from simile.online.export.onnx_models import Networked
from simile.online.export.subject import Exported, Subject, check_path, name_model, require_one
from simile.policies.fused import FusedPolicy
from simile.policies.policies import SmoothPolicy
from simile.policies.rollouts import DIVERGED, find_first


def export_c(policy: Any, path: str | os.PathLike[str], name: str | None = None) -> Exported:
    """Write one step of a policy as a C99 header that includes nothing but <float.h> and <stdint.h>.

    Compiled with `-ffp-contract=off`, which gcc implies by `-std=c99`, its actions are those of `Predictor.step`, bit
    for bit, from a cold start too. Macros say which frame an answer is for where
    that is another one (lead), and a policy that may wait gives its last answers by `flush`. See docs/export.md.

    Parameters
    ----------
    policy : Policy
        Forests and lines as f, and a linear h; mixtures of such with one smoothness and horizon.
    path : str or path
        The header, ending in .h.
    name : str, optional
        What the names in it begin with, such as pan for `pan_step`; the file's name by default.

    Returns
    -------
    Exported
        How much room the tables and a state take.

    Raises
    ------
    ArgumentError
        When the policy cannot be written in C, as networks cannot: export them by `export_onnx`.

    Examples
    --------
    >>> import tempfile
    >>> from simile import Horizon, SmoothForest, clone, tasks
    >>> demos = tasks.pursuit(n_sequences=3, length=100)
    >>> policy = clone(demos, model=SmoothForest(n_trees=4), horizon=Horizon(2, 0)).policy
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     exported = export_c(policy, f"{folder}/pan.h")
    >>> exported.state  # bytes; what it prints tells the tables too
    144
    """
    out = check_path(path, ".h", "export_c writes C, and export_onnx writes ONNX")
    subject = Subject.of(policy)
    header = _Header(subject, text.check_name(name, out.stem))
    write_atomically(out, header.write().encode("ascii"))
    return Exported(out, header.table_size, header.state_size)


class _Header:
    """The parts of a header; `write` puts them into the template."""

    def __init__(self, subject: Subject, name: str) -> None:
        self.subject, self.name = subject, name
        self.policy = policy = require_one(subject.policy)
        self.f = _lay_out(policy, policy.f, policy.horizon)
        # A policy that reads no past actions begins by f itself.
        naive = policy.naive if subject.begins and policy.horizon.memory > 0 else None
        self.naive = None if naive is None else _lay_out(policy, naive, policy.horizon.without_actions())
        self.first = find_first(policy) if subject.begins else None
        self.context_rows = max(1, *policy.horizon.context_lags)
        self.action_rows = max(1, policy.memory)

    @property
    def models(self) -> list[tuple[str, Tables]]:
        """The tables of f and, where it is another, of what guesses the first action."""
        return [(f"{self.name}_f", self.f)] + ([(f"{self.name}_naive", self.naive)] if self.naive else [])

    @property
    def _shift(self) -> str:
        """What takes the origin off context j; nothing where there is none."""
        return "" if self.policy.units.origin is None else f" - {self.name}_origin[j]"

    @property
    def _value(self) -> str:
        """What context j is, once a code for a missing value is none."""
        return f"{self.name}_known(x, j)" if self.subject.codes else "x[j]"

    def _known_values(self) -> str:
        """Return the function that `_value` calls; nothing where there are no codes."""
        tests = "".join(
            f"    if (j == {j} && x[j] >= {text.write_number(c - CLOSE * abs(c))} && "
            f"x[j] <= {text.write_number(c + CLOSE * abs(c))}) return zero / zero;\n"
            for j, codes in self.subject.codes
            for c in codes
        )
        return text.fill("known_values", name=self.name, tests=tests) if tests else ""

    @property
    def _smoothness(self) -> str:
        """lambda, that of action j where each has its own."""
        one = self.policy.smoothness
        return f"{self.name}_smoothness[j]" if isinstance(one, np.ndarray) else text.write_number(one)

    def _extras(self) -> dict[str, str]:
        """Return what a hysteresis, a memory of the start and a lead add in each place; nothing where there is none."""
        horizon, name = self.policy.horizon, self.name
        held = ("position", "play", "begin_position", "override_position", "latest")
        kept = ("offset", "known", "anew", "room", "keep", "fade")
        ahead = ("aims",)
        cold = ("cold", "warm", "first", "begun", "begins")
        wait = ("waits", "queue", "awaits", "unanswered", "lasting", "await", "await_blind", "await_operator", "flush")
        found = {**dict.fromkeys((*held, *kept, *ahead, *wait, *cold), ""), "latest": f"{name}_past(s, 1)[j]"}
        values = {"name": name, "NAME": name.upper(), "lead": horizon.lead, "wait": horizon.wait}
        for part, places in (
            (self.policy.hold, held),
            (self.policy.offset, kept),
            (horizon.lead or None, ahead),
            (horizon.wait or None, wait),
            (self.first, cold),
        ):
            if part is not None:
                found |= {place: text.fill(place, rows=self.action_rows, **values) for place in places}
        return {**found, **{place: found[place].rstrip() for place in ("latest", "room", "lasting")}}

    @property
    def table_size(self) -> int:
        """Bytes of all constant arrays."""
        return sum(values.nbytes for _, values in self._arrays())

    @property
    def state_size(self) -> int:
        """Bytes of a state, padded as compilers do."""
        k, m = self.subject.n_actions, self.subject.n_contexts
        doubles = k * (self.action_rows + sum(part is not None for part in (self.policy.hold, self.policy.offset)))
        counts = 3 + (self.first is not None) + (self.policy.offset is not None) + 2 * (self.policy.horizon.wait > 0)
        return -(-(8 * doubles + 4 * m * self.context_rows + 4 * counts) // 8) * 8

    def write(self) -> str:
        """Return the header."""
        template = Template(files("simile.online.export").joinpath("step.h.in").read_text("ascii"))
        return template.substitute(
            name=self.name,
            NAME=self.name.upper(),
            head=self._head(),
            contexts=self.subject.n_contexts,
            actions=self.subject.n_actions,
            bands=self._bands(),
            context_rows=self.context_rows,
            action_rows=self.action_rows,
            features=self.policy.horizon.n_features(self.subject.n_contexts, self.subject.n_actions),
            tables="\n".join(text.write_array(name, values) for name, values in self._arrays()),
            models="\n".join(text.write_model(name, tables, self.subject.n_actions) for name, tables in self.models),
            look=self._look(),
            begin=self._begin(),
            shift=self._shift,
            value=self._value,
            known_values=self._known_values(),
            order=self.policy.h.order,
            smoothness=self._smoothness,
            **self._extras(),
            limit=text.write_number(DIVERGED),
            bridge=Extrapolate().frames,
        )

    def _arrays(self) -> list[tuple[str, Any]]:
        """Return every constant array, by name."""
        horizon, h, bounds = self.policy.horizon, self.policy.h, UserBounds(self.policy)
        plain: dict[str, Any] = {
            "coefficient": np.array(h.coefficients if isinstance(h, Autoregressor) else (), dtype=np.float64),
            **{name: getattr(bounds, name) for name in ("low", "high", "center", "scale", "floor", "ceiling")},
            **self._firsts(),
            "smoothness": self.policy.smoothness if isinstance(self.policy.smoothness, np.ndarray) else (),
            "width": () if self.policy.hold is None else self.policy.hold.width,
            "stepping": () if self.policy.hold is None else self.policy.hold.stepping.astype(np.int32),
            "share": () if self.policy.offset is None else self.policy.offset.share,
            "fade": () if self.policy.offset is None else self.policy.offset.fade,
            "origin": () if self.policy.units.origin is None else self.policy.units.origin,
            "context_lag": np.array(horizon.context_lags, dtype=np.int32),
            "action_lag": np.array(horizon.action_lags, dtype=np.int32),
        }
        small = [(f"{self.name}_{name}", values) for name, values in plain.items() if len(values)]
        return small + [
            (f"{model}_{name}", values) for model, tables in self.models for name, values in tables.arrays()
        ]

    def _firsts(self) -> dict[str, Any]:
        """Return where the first action of a cold start lies, in standard and in the user's units; all or none."""
        if self.first is None:
            return {}
        space, k = self.policy.space, self.subject.n_actions
        user = [np.broadcast_to(space.begin(np.full(k, side)), (k,)) for side in (-np.inf, np.inf)]
        return dict(zip(("first_low", "first_high", "first_floor", "first_ceiling"), (*self.first, *user), strict=True))

    def _tell_first(self) -> list[str]:
        """Return the line about where a cold start begins; none where nothing is known of it."""
        if self.first is None:
            return []
        low, high = (text.write_row(self._firsts()[name]) for name in ("first_floor", "first_ceiling"))
        return [f"  begins    from {low} to {high}, after {self.name}_begin"]

    def _bands(self) -> str:
        """Return macros of the constant half-widths of bands; nothing where the policy carries none."""
        return "".join(
            f"#define {self.name.upper()}_BAND_{100 * level:.0f} "
            f"{{{', '.join(text.write_number(value) for value in half)}}} /* half the width that holds so much */\n"
            for level, half in self.subject.bands.items()
        )

    def _look(self) -> str:
        """Return the body that lays out a state, in the order of `States.matrix`."""
        horizon, sizes = self.policy.horizon, {"name": self.name, "k": self.subject.n_actions}
        lags, rows = len(horizon.context_lags), self.context_rows
        contexts = text.fill("context_lags", lags=lags, rows=rows, m=self.subject.n_contexts, **sizes)
        return contexts + (
            text.fill("action_lags", lags=len(horizon.action_lags), **sizes) if horizon.action_lags else ""
        )

    def _begin(self) -> str:
        """Return the function that starts cold; nothing where the policy cannot."""
        if not self.subject.begins:
            return ""
        m, k = self.subject.n_contexts, self.subject.n_actions
        features = self.policy.horizon.n_features(m, k)
        guess, shift = self.models[-1][0], self._shift
        within, cold = ("" if self.first is None else text.fill(part, name=self.name) for part in ("within", "chill"))
        parts = {"guess": guess, "value": self._value, "shift": shift, "within": within, "cold": cold}
        return text.fill("begin", name=self.name, m=m, k=k, features=features, **parts)

    def _head(self) -> str:
        """Return what a reader should know before including the file."""
        card, name = self.policy.card, self.name
        space, units, horizon = self.policy.space, self.policy.units, self.policy.horizon
        no_more = f"after the last frame, until it returns {name.upper()}_NO_ANSWER"
        ahead = "What is called name[t+n] is what name will be n frames later; NaN where that is not known."
        begin = f"{name}_begin(&s, x);" if self.subject.begins else f"{name}_begin_at(&s, x, action);"
        return text.write_comment(
            [
                f"{name}: a controller learned by simile {version('smooth-imitation')}; one context in, one action out",
                "",
                *_list_names("contexts", card.context_names, self.subject.n_contexts),
                *_list_names("actions", card.action_names, self.subject.n_actions),
                f"  bounds    from {text.write_row(space.low)} to {text.write_row(space.high)}",
                *self._tell_first(),
                f"  units     center {text.write_row(units.center)}; scale {text.write_row(units.scale)}",
                *([] if units.origin is None else [f"  origin    {', '.join(map(str, units.origin.tolist()))}"]),
                f"  rate      {'not known' if card.rate is None else f'{card.rate:g} frames a second'}",
                *([f"  lead      it {tell_lead(horizon.lead, card.rate)}"] if horizon.lead else []),
                f"  digest    {self.subject.digest or 'none: the policy cannot be stored'}",
                f"  room      {self.table_size} bytes of constants, {self.state_size} bytes for each stream",
                "",
                f"  {name}_state s;",
                f"  {begin:<40} before the first frame, with its context",
                f"  {f'{name}_step(&s, x, action);':<40} in every frame, the first one too",
                f"  {f'{name}_miss(&s, action);':<40} in a frame that brought no context",
                f"  {f'{name}_override(&s, x, action);':<40} in a frame in which an operator acted",
                *([f"  {f'{name}_flush(&s, action);':<40} {no_more}"] if horizon.wait else []),
                "",
                "Include it in one C file. Contexts and actions are in the units of the training, in the order above;",
                "a missing value of a context is NaN. Nothing is allocated, and no function of a library is called.",
                *([ahead] if horizon.known else []),
                "For the same bits as in Python compile with -ffp-contract=off, which gcc implies by -std=c99. Never",
                "compile with -ffast-math: it does not know NaN.",
            ]
        )


def _lay_out(policy: SmoothPolicy, model: Model, horizon: Horizon) -> Tables:
    """Return the tables of a model that sees through this horizon."""
    check_apart(policy.h, "policy", "an export")
    if not isinstance(policy.h, Autoregressor):
        raise ArgumentError(
            f"policy: h must be linear to be written in C; got a {type(policy.h).__name__}: learn with "
            "regularizer=CriticallyDamped() or another of simile's own"
        )
    parts = [part for part, _ in parts_of(model)]
    if network := next((part for part in parts if isinstance(part, Networked)), None):
        raise ArgumentError(
            f"policy: a network ({type(network).__name__}) is not written in C: export it to ONNX by export_onnx"
        )
    if other := next((part for part in parts if not isinstance(part, Forest | PiecewiseLinear)), None):
        raise ArgumentError(
            f"policy: {name_model(other)} is a model of another library, which is not written in C: learn with "
            "model=SmoothForest() or Ridge()"
        )
    fused = FusedPolicy.of(replace(policy, f=model, horizon=horizon))
    if fused is None:
        raise ArgumentError(
            "policy: its models do not read the states of its horizon: build it by a training, or mend the horizon"
        )
    return Tables.of(fused, horizon)


def _list_names(what: str, names: tuple[str, ...], n: int) -> list[str]:
    """List the columns, some to a line."""
    listed = [f"{i} {name}" for i, name in enumerate(names or ("not named",) * n)]
    lines = wrap(", ".join(listed), width=text.WIDTH - 14)
    return [f"  {what if i == 0 else '':<9} {line}" for i, line in enumerate(lines)]
