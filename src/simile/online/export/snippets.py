"""Pieces of C, for those parts of a header that depend on the policy; the others are in step.h.in."""

from __future__ import annotations

from simile.online.export.tables import Tables

TREES = """\
    for (i = 0; i < {trees}; i++) {{
        const int32_t node = {name}_tree[i][0], leaf = {name}_tree[i][1];
        int32_t at = {name}_tree[i + 1][0] > node ? 0 : -1; /* a leaf is the complement of its number */
{descent}        for (j = 0; j < {k}; j++) f[j] += {name}_value[leaf + ~at][j];
    }}
"""
DESCENT = """\
        while (at >= 0) {{
            const int32_t entry = {name}_feature[node + at]; /* a complement where missing values go right */
            const float value = seen[entry >= 0 ? entry : ~entry], threshold = {name}_threshold[node + at];
            at = {name}_child[node + at][entry >= 0 ? value > threshold : !(value <= threshold)];
        }}
"""
LINES = """\
    for (j = 0; j < {k}; j++) {{
        double total = {name}_slope[0][j];
{terms}        f[j] += total;
    }}
"""
TERMS = """\
        for (i = 0; i < {terms}; i++) {{
            double value = seen[{name}_entry[i]];
            if (value != value) value = {name}_fill[i]; /* NaN */
            total += {name}_slope[i + 1][j] * (value > {name}_knot[i] ? value : {name}_knot[i]);
        }}
"""
BEGIN = """\
/* Begin a stream without a past, before its first frame, whose context is x: as if the action that x alone suggests
 * had been held for long. */
static inline void {name}_begin({name}_state *s, const double *x)
{{
    float now[{m}], seen[{features}];
    double f[{k}];
    int j;
    {name}_begin_at(s, x, {name}_center);
    for (j = 0; j < {m}; j++) now[j] = {name}_single(x[j]);
    {name}_look(s, now, seen);
    {guess}(seen, f);
    for (j = 0; j < {k}; j++) f[j] = f[j] * {name}_scale[j] + {name}_center[j];
    {name}_begin_at(s, x, f);
}}
"""
CONTEXT_LAGS = """\
    int i, j;
    for (i = 0; i < {lags}; i++) {{
        const int lag = {name}_context_lag[i];
        const float *row = lag == 0 ? now : s->contexts[(s->context + 1 - lag + {rows}) % {rows}];
        for (j = 0; j < {m}; j++) *out++ = row[j];
    }}
"""
ACTION_LAGS = """\
    for (i = 0; i < {lags}; i++)
        for (j = 0; j < {k}; j++) *out++ = {name}_single({name}_past(s, {name}_action_lag[i])[j]);
"""


def model(name: str, tables: Tables, k: int) -> str:
    """Return the function that predicts an action in standard units from a state."""
    terms = TERMS.format(name=name, terms=len(tables.entry)) if len(tables.entry) else ""
    descent = DESCENT.format(name=name) if len(tables.feature) else ""
    counters = "i, j" if tables.n_trees or terms else "j"
    body = f"    int {counters};\n"
    body += "" if descent or terms else "    (void)seen;\n"
    body += f"    for (j = 0; j < {k}; j++) f[j] = 0.0;\n"
    body += TREES.format(name=name, trees=tables.n_trees, descent=descent, k=k) if tables.n_trees else ""
    body += LINES.format(name=name, terms=terms, k=k) if tables.lines else ""
    return f"static inline void {name}(const float *seen, double *f)\n{{\n{body}}}\n"
