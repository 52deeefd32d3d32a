"""Makes trend.json: run with scipy, numpy, pymannkendall and ruptures installed.

    python trend.py > trend.json
"""
import json
import numpy as np
import pymannkendall as mk
import ruptures as rpt
from scipy import stats

rng = np.random.default_rng(11)
out = {m: __import__(m).__version__ for m in ("scipy", "numpy", "ruptures", "pymannkendall") if hasattr(__import__(m), "__version__")}


def num(v):
    v = float(v)
    return None if np.isnan(v) else v


def ar1(n, rho):
    e = rng.standard_normal(n)
    y = np.empty(n)
    y[0] = e[0]
    for i in range(1, n):
        y[i] = rho * y[i - 1] + np.sqrt(1 - rho * rho) * e[i]
    return y


# scipy holds the ranks of an interval to what there is; here an interval whose
# ranks lie outside is null.
theil = []
for n, tx, ty, level in ((5, 0, 0, 0.95), (3, 0, 0, 0.95), (10, 0, 0, 0.95), (11, 0, 0, 0.9), (40, 0, 0, 0.99),
                         (40, 1, 0, 0.95), (40, 0, 1, 0.95), (41, 1, 1, 0.95), (100, 1, 1, 0.8), (150, 0, 0, 0.95)):
    x = np.sort(rng.integers(0, n // 2, n).astype(float)) if tx else np.cumsum(rng.uniform(1, 9, n))
    y = 3 + 0.2 * x + rng.standard_t(2, n)
    if ty:
        y = np.round(y)
    r = stats.theilslopes(y, x, level, method="separate")
    pairs = sum(1 for i in range(n) for j in range(i) if x[i] != x[j])
    ties = sum(k * (k - 1) * (2 * k + 5) for v in (x, y) for k in np.unique(v, return_counts=True)[1])
    spread = stats.norm.ppf(0.5 + level / 2) * np.sqrt((n * (n - 1) * (2 * n + 5) - ties) / 18)
    inside = round((pairs - spread) / 2) - 1 >= 0 and round((pairs + spread) / 2) <= pairs - 1
    theil.append({"x": x.tolist(), "y": y.tolist(), "level": level, "slope": num(r.slope), "intercept": num(r.intercept),
                  "lo": num(r.low_slope) if inside else None, "hi": num(r.high_slope) if inside else None})
out["theil_sen"] = theil

# The residuals of tied data are tied; rounding errors would break the ties
# differently on each machine.
mk.pymannkendall.rankdata = lambda v: stats.rankdata(np.round(v, 9))
kendall = []
for n, rho, slope, ties in ((4, 0, 0, 0), (10, 0, 0.1, 0), (30, 0, 0, 0), (60, 0.5, 0, 0), (60, 0.8, 0.02, 0), (61, 0.8, 0, 1),
                            (120, 0.8, 0, 0), (120, -0.5, 0.001, 0), (180, 0.5, -0.01, 1), (40, 0.3, 0.05, 1)):
    y = ar1(n, rho) + slope * np.arange(n)
    if ties:
        y = np.round(2 * y)
    r = mk.hamed_rao_modification_test(y)
    kendall.append({"y": y.tolist(), "s": num(r.s), "tau": num(r.Tau), "var": num(r.var_s), "z": num(r.z), "p": num(r.p),
                    "plain": num(mk.original_test(y).var_s)})
out["mann_kendall"] = kendall


def exact(y, size, pen):
    """The minimum itself, without pruning: ruptures prunes too early when size > 1."""
    n = len(y)
    best = [0.0] + [np.inf] * n
    for t in range(size, n + 1):
        best[t] = min(best[s] + y[s:t].var() * (t - s) + pen for s in range(0, t - size + 1))
    return best[n]


pelt = []
for n, levels, size, pen in ((40, (0, 5), 1, 6), (60, (0, 3, 1), 2, 8), (100, (0,), 3, 12), (120, (0, 2, 5, 2), 5, 10),
                             (200, (10, 11, 10), 10, 12), (50, (0, 1, 0, 1), 2, 0.5), (150, (0, 4, 0, 4, 8), 7, 15), (90, (0, 1), 1, 2)):
    y = np.concatenate([np.full(len(part), float(l)) for l, part in zip(levels, np.array_split(np.arange(n), len(levels)))])
    y = y + rng.standard_normal(n)
    found = rpt.Pelt(model="l2", jump=1, min_size=size).fit(y).predict(pen=pen)
    cost = sum(y[a:b].var() * (b - a) + pen for a, b in zip([0] + found, found))
    least = exact(y, size, pen)
    assert found[-1] == n and cost > least - 1e-9
    pelt.append({"y": y.tolist(), "size": size, "penalty": pen, "points": found[:-1], "least": least, "missed": bool(cost > least + 1e-9)})
out["pelt"] = pelt

# The resamples by their starts, and the mean of each.
y = 5 + ar1(25, 0.6)
block, replicates = 4, 200
starts = rng.integers(0, 25, (replicates, 7))
indices = [np.concatenate([(s + np.arange(block)) % 25 for s in row])[:25] for row in starts]
means = np.array([y[i].mean() for i in indices])
out["bootstrap"] = {
    "y": y.tolist(), "block": block, "starts": starts.tolist(), "indices": [i.tolist() for i in indices[:3]], "means": means.tolist(),
}
print(json.dumps(out))
