"""Cases of operators of ai.onnx.ml, for peer_cases.py."""
import numpy as np
from onnx import numpy_helper

RNG = np.random.default_rng(1)
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")


def real(*shape, low=-1.0, high=1.0):
    return RNG.uniform(low, high, shape).astype(np.float32)


def listed(*shape):
    return real(*shape).ravel().tolist()


def whole(low, high, *shape):
    return RNG.integers(low, high, shape).astype(np.int64)


def add_features(add):
    x = ("x", real(5, 4, low=-2, high=2))
    add("scaler", "Scaler", [x], ["y"], offset=[0.1, 0.2, 0.3, 0.4], scale=[1.0, 2.0, 3.0, 4.0])
    add("scaler_whole", "Scaler", [("x", whole(-5, 5, 5, 4))], ["y"], offset=[0.1], scale=[3.0])
    rows = np.vstack([x[1], np.zeros((1, 4), np.float32)])
    for norm in ("MAX", "L1", "L2"):
        add(f"normalizer_{norm.lower()}", "Normalizer", [("x", rows)], ["y"], norm=norm)
    add("binarizer", "Binarizer", [x], ["y"], threshold=0.3)
    gaps = x[1].copy()
    gaps[0, 0] = gaps[2, 3] = np.nan
    add("imputer", "Imputer", [("x", gaps)], ["y"], imputed_value_floats=[1.0, 2.0, 3.0, 4.0],
        replaced_value_float=float("nan"))
    add("imputer_whole", "Imputer", [("x", whole(0, 3, 5, 4))], ["y"],
        imputed_value_int64s=[7], replaced_value_int64=1)
    add("onehot", "OneHotEncoder", [("x", whole(0, 5, 5, 2))], ["y"], cats_int64s=[0, 2, 3])
    add("encoder", "LabelEncoder", [("x", whole(0, 5, 5, 2))], ["y"], keys_int64s=[0, 2, 3],
        values_int64s=[10, 20, 30], default_int64=-5)
    add("encoder_real", "LabelEncoder", [("x", whole(0, 5, 5, 2))], ["y"],
        keys_int64s=[0, 2, 3], values_floats=[0.5, 1.5, 2.5], default_float=-9.0)
    add("encoder_nan", "LabelEncoder", [("x", np.array([0, 1.5, np.nan, 2], np.float32))],
        ["y"], keys_floats=[1.5, float("nan")], values_int64s=[10, 20], version=4)
    add("extractor", "ArrayFeatureExtractor", [x, ("i", np.array([[2, 0]], np.int64))], ["y"])
    add("vectorizer", "FeatureVectorizer", [("a", whole(0, 9, 3, 2)), ("b", whole(0, 9, 3, 2))],
        ["y"], inputdimensions=[2, 4])


def add_linear(add):
    x = ("x", real(5, 4, low=-2, high=2))
    add("linear", "LinearRegressor", [x], ["y"], coefficients=listed(4), intercepts=[0.3])
    add("linear_targets", "LinearRegressor", [x], ["y"], coefficients=listed(8),
        intercepts=[0.3, 0.5], targets=2, post_transform="LOGISTIC")
    for transform in TRANSFORMS:
        for classes, scores in ((3, 3), (2, 1), (2, 2)):
            add(f"classes_{classes}_{scores}_{transform.lower()}", "LinearClassifier", [x],
                ["l", "s"], coefficients=listed(4 * scores), intercepts=listed(scores),
                classlabels_ints=[10, 20, 30][:classes], post_transform=transform)
    add("classes_text", "LinearClassifier", [x], ["l", "s"], compared=["s"],
        coefficients=listed(12), intercepts=listed(3), classlabels_strings=["a", "b", "c"])


def add_vectors(add):
    x = ("x", real(5, 4, low=-2, high=2))
    kernels = {"LINEAR": [0.0, 0.0, 0.0], "POLY": [0.5, 0.3, 2.0], "RBF": [0.5, 0.0, 3.0],
               "SIGMOID": [0.5, 0.1, 3.0]}
    for kernel, numbers in kernels.items():
        kind = {"kernel_type": kernel, "kernel_params": numbers}
        add(f"svr_{kernel.lower()}", "SVMRegressor", [x], ["y"], n_supports=6,
            support_vectors=listed(6, 4), coefficients=listed(6), rho=[0.2], **kind)
        for classes in (2, 3, 4):
            counts = [2, 3, 2, 1][:classes]
            pairs = classes * (classes - 1) // 2
            more = {"vectors_per_class": counts, "support_vectors": listed(sum(counts), 4),
                    "coefficients": listed((classes - 1) * sum(counts)), "rho": listed(pairs),
                    "classlabels_ints": [10, 20, 30, 40][:classes], **kind}
            name = f"svc_{kernel.lower()}_{classes}"
            for transform in TRANSFORMS[:3] if kernel == "RBF" else TRANSFORMS[:1]:
                add(f"{name}_{transform.lower()}", "SVMClassifier", [x], ["l", "s"],
                    post_transform=transform, **more)
    add("svr_no_vectors", "SVMRegressor", [x], ["y"], n_supports=0, coefficients=listed(4),
        rho=[0.2], kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0])
    add("svr_one_class", "SVMRegressor", [x], ["y"], n_supports=6, rho=[0.2], one_class=1,
        support_vectors=listed(6, 4), coefficients=listed(6), kernel_type="RBF",
        kernel_params=kernels["RBF"])


class Forest:
    """The lists of random trees."""

    def __init__(self, trees=4, depth=3, modes=MODES[:1], thresholds=None, missing=0.0):
        self.nodes = {name: [] for name in (
            "treeids", "nodeids", "featureids", "values", "modes", "truenodeids",
            "falsenodeids", "missing_value_tracks_true")}
        self.leaves = []
        self.depth, self.modes, self.missing = depth, modes, missing
        self.thresholds = thresholds
        for tree in range(trees):
            self.first = len(self.nodes["treeids"])
            self.grow(tree, depth)

    def grow(self, tree, depth):
        """Adds a subtree, and returns the number of its node."""
        at = len(self.nodes["treeids"])
        node = at - self.first
        for values in self.nodes.values():
            values.append(0)
        self.nodes["treeids"][at], self.nodes["nodeids"][at] = tree, node
        self.nodes["values"][at] = 0.0
        if depth == 0 or (depth < self.depth and RNG.random() < 0.2):
            self.nodes["modes"][at] = "LEAF"
            self.leaves.append((tree, node))
            return node
        self.nodes["modes"][at] = str(RNG.choice(self.modes))
        self.nodes["featureids"][at] = int(RNG.integers(4))
        self.nodes["values"][at] = float(RNG.uniform(-1, 1) if self.thresholds is None
                                         else RNG.choice(self.thresholds))
        self.nodes["missing_value_tracks_true"][at] = int(RNG.random() < self.missing)
        self.nodes["truenodeids"][at] = self.grow(tree, depth - 1)
        self.nodes["falsenodeids"][at] = self.grow(tree, depth - 1)
        return node

    def attributes(self, prefix, targets, low=-1.0, high=1.0):
        """Returns all lists. `targets` tells those of the leaves of a tree."""
        lists = {f"nodes_{name}": values for name, values in self.nodes.items()}
        weights = [(tree, node, target) for tree, node in self.leaves
                   for target in targets(tree)]
        lists[f"{prefix}_treeids"] = [weight[0] for weight in weights]
        lists[f"{prefix}_nodeids"] = [weight[1] for weight in weights]
        lists[f"{prefix}_ids"] = [weight[2] for weight in weights]
        lists[f"{prefix}_weights"] = RNG.uniform(low, high, len(weights)).tolist()
        return lists


def add_regressors(add):
    x = real(40, 4, low=-1.5, high=1.5)
    grid = RNG.integers(-2, 3, (40, 4)).astype(np.float32)
    gaps = x.copy()
    gaps[RNG.random(x.shape) < 0.2] = np.nan

    def regressor(name, rows, forest, targets=lambda tree: [0], count=1, **more):
        add(f"trees_{name}", "TreeEnsembleRegressor", [("x", rows)], ["y"], n_targets=count,
            **forest.attributes("target", targets), **more)
    for function in ("SUM", "AVERAGE", "MIN", "MAX"):
        name, more = function.lower(), {"aggregate_function": function}
        regressor(name, x, Forest(), **more)
        regressor(f"{name}_three", x, Forest(), lambda tree: range(3), 3,
                  base_values=[0.1, 0.2, 0.3], **more)
        regressor(f"{name}_own", x, Forest(), lambda tree: [tree % 3], 3, **more)
    for mode in MODES:
        regressor(mode.lower(), grid, Forest(modes=(mode,), thresholds=(-1, 0, 1)))
        regressor(f"{mode.lower()}_missing", gaps, Forest(modes=(mode,), missing=0.5))
    regressor("modes", grid, Forest(modes=MODES, thresholds=(-1, 0, 1)))
    regressor("base", x, Forest(), base_values=[0.7])
    regressor("float64", x.astype(np.float64), Forest())
    regressor("logistic", x, Forest(), post_transform="LOGISTIC")
    regressor("softmax", x, Forest(), lambda tree: range(3), 3, post_transform="SOFTMAX")
    regressor("deep", x, Forest(trees=20, depth=8))


def add_classifiers(add):
    x = real(40, 4, low=-1.5, high=1.5)

    def classifier(name, targets, labels, low=-1.0, compared=None, **more):
        for transform in TRANSFORMS:
            add(f"forest_{name}_{transform.lower()}", "TreeEnsembleClassifier", [("x", x)],
                ["l", "s"], compared=compared, post_transform=transform,
                classlabels_int64s=labels,
                **Forest(trees=6).attributes("class", targets, low, 1.0 if low < 0 else 0.25),
                **more)
    classifier("three", lambda tree: range(3), [10, 20, 30])
    classifier("own", lambda tree: [tree % 3], [10, 20, 30], base_values=[0.1, 0.2, 0.3])
    for only in (0, 1):
        classifier(f"only{only}", lambda tree, only=only: [only], [10, 20])
        classifier(f"positive{only}", lambda tree, only=only: [only], [10, 20], low=0.0)
    classifier("base", lambda tree: [0], [10, 20], base_values=[0.3])
    # The labels of ONNX Runtime are 0 and 1 here, whatever the attribute says.
    classifier("both", lambda tree: range(2), [10, 20], compared=["s"])


def add_ensemble(add):
    def tensor(numbers, dtype=np.float32):
        return numpy_helper.from_array(np.array(numbers, dtype), "t")
    add("ensemble", "TreeEnsemble", [("x", RNG.integers(-2, 3, (40, 4)).astype(np.float32))],
        ["y"], version=5, n_targets=2, leaf_targetids=[0, 1, 0, 1], tree_roots=[0],
        leaf_weights=tensor([5, 12, -10, 3]), membership_values=tensor([1, -1, np.nan]),
        nodes_modes=tensor([0, 6, 4], np.uint8), nodes_splits=tensor([0, 0, 1]),
        nodes_featureids=[0, 2, 1], nodes_trueleafs=[0, 1, 1], nodes_truenodeids=[1, 0, 2],
        nodes_falseleafs=[0, 1, 1], nodes_falsenodeids=[2, 1, 3])


def add_all(cases):
    def add(name, op, inputs, outputs, **more):
        cases.add(f"ml_{name}", op, inputs, outputs, "ai.onnx.ml",
                  weights=["i"] if op == "ArrayFeatureExtractor" else (), **more)
    add_features(add)
    add_linear(add)
    add_vectors(add)
    add_regressors(add)
    add_classifiers(add)
    add_ensemble(add)
