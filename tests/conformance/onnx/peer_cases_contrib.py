"""Cases of operators of com.microsoft, for peer_cases.py."""
import numpy as np

RNG = np.random.default_rng(0)


def real(*shape, low=-1.0, high=1.0):
    return RNG.uniform(low, high, shape).astype(np.float32)


def one(number, dtype=np.float32):
    return np.array(number, dtype)


def codes(dtype, *shape):
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def bits(*shape):
    return RNG.integers(0, 2, shape).astype(np.int32)


def add_activations(add):
    x = ("x", real(2, 3, 4, low=-3, high=3))
    b = ("b", real(4))
    add("fastgelu", "FastGelu", [x, b], ["y"])
    add("fastgelu_alone", "FastGelu", [x], ["y"])
    add("gelu", "Gelu", [x], ["y"])
    add("biasgelu", "BiasGelu", [x, b], ["y"])
    add("quickgelu", "QuickGelu", [x], ["y"], alpha=1.5)
    add("quickgelu_default", "QuickGelu", [x], ["y"])


def add_norms(add):
    x, s = ("x", real(2, 3, 8)), real(2, 3, 8)
    g, b, i = ("g", real(8)), ("b", real(8)), ("i", real(8))
    skip, simple = "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"
    add("skipln", skip, [x, ("s", s), g, b, i], ["y", "", "", "z"], epsilon=1e-5)
    add("skipln_no_beta", skip, [x, ("s", s), g], ["y"])
    add("skipln_row", skip, [x, ("s", s[:1]), g, b], ["y"])
    add("skipln_rank2", skip, [x, ("s", s[0]), g, b], ["y"])
    add("skiprms", simple, [x, ("s", s), g, i], ["y", "", "", "z"], epsilon=1e-5)
    add("rms", "SimplifiedLayerNormalization", [x, g], ["y", "v"], domain="", epsilon=1e-5)
    ids = ("ids", RNG.integers(0, 10, (2, 4)).astype(np.int32))
    mask = ("m", np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32))
    words, places, segments = ("we", real(10, 8)), ("pe", real(6, 8)), ("se", real(2, 8))
    embed = "EmbedLayerNormalization"
    add("embed", embed, [ids, ("seg", bits(2, 4)), words, places, segments, g, b, mask],
        ["y", "c", "e"])
    add("embed_no_segments", embed, [ids, "", words, places, "", g, b], ["y", "c"])
    add("embed_positions", embed, [ids, "", words, places, "", g, b, "",
                                   ("p", RNG.integers(0, 6, (2, 4)).astype(np.int32))],
        ["y", "c"])


def add_products(add):
    fused = "FusedMatMul"
    add("matmul_a", fused, [("a", real(2, 4, 3)), ("b", real(2, 4, 5))], ["y"], alpha=0.5,
        transA=1)
    add("matmul_b", fused, [("a", real(2, 3, 4)), ("b", real(5, 4))], ["y"], transB=1)
    add("matmul_batch", fused, [("a", real(3, 2, 4)), ("b", real(2, 4, 5))], ["y"],
        transBatchA=1)
    add("matmul_batches", fused, [("a", real(3, 2, 6, 4)), ("b", real(5, 2, 6, 4))], ["y"],
        transBatchA=1, transBatchB=1, transB=1)
    for name, more in (("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.3}), ("Tanh", {}),
                       ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4})):
        add(f"gemm_{name.lower()}", "FusedGemm",
            [("a", real(3, 4)), ("b", real(5, 4)), ("c", real(5))], ["y"], alpha=0.5, beta=2.0,
            transB=1, activation=name, **more)
    conv = [("x", real(1, 2, 5, 5)), ("w", real(3, 2, 3, 3)), ("b", real(3))]
    for name, numbers in (("Relu", None), ("LeakyRelu", [0.2]), ("Clip", [-0.2, 0.5]),
                          ("HardSigmoid", [0.2, 0.5])):
        more = {"activation_params": numbers} if numbers else {}
        add(f"conv_{name.lower()}", "FusedConv", conv, ["y"], activation=name,
            pads=[1, 1, 1, 1], **more)
    add("conv_sum", "FusedConv", [*conv, ("z", real(1, 3, 5, 5))], ["y"], activation="Relu",
        pads=[1, 1, 1, 1])


def add_quantized(add, dtype):
    n = np.dtype(dtype).name
    yz = ("yz", one(100 if dtype == np.uint8 else -3, dtype))

    # The scales are such that no result lies between two codes.
    def coded(name, scale, zero, *shape):
        return [(name, codes(dtype, *shape)), (name + "s", one(scale)),
                (name + "z", one(zero, dtype))]

    def unary(name, op, shape=(2, 3, 4, 4), **more):
        add(f"{name}_{n}", op, [*coded("x", 0.0317, 5, *shape), ("ys", one(0.0213)), yz], ["y"],
            **more)
    for op in ("QLinearAdd", "QLinearMul"):
        add(f"{op.lower()}_{n}", op, [*coded("a", 0.0317, 7, 2, 3, 4), *coded("b", 0.0523, 9, 4),
                                      ("ys", one(0.1011)), yz], ["y"])
    unary("qsigmoid", "QLinearSigmoid")
    unary("qleaky", "QLinearLeakyRelu", alpha=0.2)
    for last in (0, 1):
        unary(f"qglobal_{last}", "QLinearGlobalAveragePool", channels_last=last)
    for pad in (0, 1):
        unary(f"qaverage_{pad}", "QLinearAveragePool", kernel_shape=[2, 2], strides=[2, 2],
              pads=[1, 1, 0, 0], count_include_pad=pad)
    unary("qaverage_last", "QLinearAveragePool", kernel_shape=[2, 2], channels_last=1)
    # ONNX Runtime takes this scale for granted.
    for opset, axis in ((13, -1), (13, 1), (12, 1)):
        add(f"qsoftmax_{opset}_{axis % 3}_{n}", "QLinearSoftmax",
            [*coded("x", 0.0317, 5, 2, 3, 5), ("ys", one(1 / 256)), yz], ["y"], axis=axis,
            attributes={"opset": opset})
    add(f"qconcat_{n}", "QLinearConcat", [("ys", one(0.0417)), yz, *coded("a", 0.0317, 7, 2, 3),
                                          *coded("b", 0.0523, 9, 2, 2)], ["y"], axis=1)
    add(f"qwhere_{n}", "QLinearWhere", [("c", RNG.integers(0, 2, (2, 3)).astype(bool)),
                                        *coded("a", 0.0317, 7, 2, 3), *coded("b", 0.0523, 9, 2, 3),
                                        ("ys", one(0.0417)), yz], ["y"])


def add_quantized_products(add, dtype):
    n = np.dtype(dtype).name
    zero = ("bz", one(9, dtype))
    matrix = ("b", codes(dtype, 8, 5))
    scales = ("bs", real(5, low=0.01, high=0.05))
    c = RNG.integers(-500, 500, 5).astype(np.int32)
    a = [("a", codes(dtype, 3, 8)), ("as", one(0.03)), ("az", one(7, dtype))]
    add(f"qgemm_real_{n}", "QGemm",
        [*a, ("b", codes(dtype, 5, 8)), ("bs", one(0.05)), zero, ("c", c)], ["y"], transB=1,
        alpha=0.5)
    add(f"qgemm_codes_{n}", "QGemm", [*a, matrix, ("bs", one(0.05)), zero, ("c", c[None]),
                                      ("ys", one(0.4)), ("yz", one(11, dtype))], ["y"])
    dynamic, whole = "DynamicQuantizeMatMul", "MatMulIntegerToFloat"
    add(f"dynamic_{n}", dynamic, [("a", real(2, 3, 8)), matrix, ("bs", one(0.02)), zero,
                                  ("i", real(5))], ["y"])
    add(f"dynamic_columns_{n}", dynamic, [("a", real(3, 8)), matrix, scales,
                                          ("bz", codes(dtype, 5))], ["y"])
    add(f"dynamic_zeros_{n}", dynamic, [("a", np.zeros((3, 8), np.float32)), matrix,
                                        ("bs", one(0.02)), zero], ["y"])
    left = ("a", codes(np.uint8, 2, 3, 8))
    add(f"whole_{n}", whole, [left, matrix, ("as", one(0.03)), ("bs", one(0.02)),
                              ("az", one(7, np.uint8)), zero, ("i", real(5))], ["y"])
    add(f"whole_columns_{n}", whole, [left, matrix, ("as", one(0.03)), scales,
                                      ("az", one(7, np.uint8)), ("bz", codes(dtype, 5))], ["y"])


def add_blocks(add):
    for width, zeros, k, n, block in (
            (4, "none", 32, 5, 16), (4, "packed", 48, 6, 16), (4, "real", 64, 6, 32),
            (8, "none", 32, 5, 16), (8, "packed", 40, 3, 16), (4, "packed", 40, 3, 16)):
        blocks = -(-k // block)
        inputs = [("a", real(2, 3, k)), ("b", codes(np.uint8, n, blocks, block * width // 8)),
                  ("s", real(n * blocks, low=0.01, high=0.05))]
        if zeros == "packed":
            inputs.append(("z", codes(np.uint8, n * -(-blocks * width // 8))))
        if zeros == "real":
            inputs.append(("z", real(n * blocks, low=0, high=15)))
        add(f"nbits_{width}_{zeros}_{k}", "MatMulNBits", inputs, ["y"], K=k, N=n, bits=width,
            block_size=block)


def add_attention(add):
    x, w, b = ("x", real(2, 4, 8)), ("w", real(8, 24)), ("b", real(24))

    def attention(name, *more, outputs=("y",), **attributes):
        add(f"attention_{name}", "Attention", [x, w, b, *more], list(outputs), num_heads=2,
            **attributes)
    keys = ("m", np.array([[1, 1, 0, 1], [0, 1, 1, 1]], np.int32))
    past = ("p", real(2, 2, 2, 3, 4))
    attention("plain")
    attention("causal", unidirectional=1)
    attention("ends", ("m", np.array([3, 2], np.int32)))
    attention("starts", ("m", np.array([3, 4, 1, 0], np.int32)))
    attention("keys", keys)
    attention("keys_causal", keys, unidirectional=1)
    attention("queries", ("m", bits(2, 4, 4)))
    attention("bias", "", "", ("ab", real(1, 2, 4, 4)), scale=0.3)
    attention("past", "", past, outputs=("y", "z"), unidirectional=1)
    attention("past_keys", ("m", bits(2, 7)), past, outputs=("y", "z"), unidirectional=1,
              mask_filter_value=-50.0)
    add("attention_sizes", "Attention", [x, ("w", real(8, 20)), ("b", real(20))], ["y"],
        num_heads=2, qkv_hidden_sizes=[8, 8, 4])
    coded = [("x", codes(np.uint8, 2, 4, 8)), ("w", codes(np.int8, 8, 24)), b,
             ("xs", one(0.02))]
    add("qattention", "QAttention", [*coded, ("ws", one(0.01)), "", ("xz", one(120, np.uint8)),
                                     ("wz", one(3, np.int8))], ["y"], num_heads=2)
    add("qattention_columns", "QAttention",
        [*coded, ("ws", real(24, low=0.005, high=0.02)), ("m", np.array([3, 2], np.int32)),
         ("xz", one(120, np.uint8)), ("wz", np.zeros(24, np.int8))], ["y"], num_heads=2)


def add_multi_head(add):
    q, k, v, b = (("q", real(2, 4, 8)), ("k", real(2, 4, 8)), ("v", real(2, 4, 8)),
                  ("b", real(24)))

    def heads(name, *inputs, outputs=("y",), **attributes):
        add(f"mha_{name}", "MultiHeadAttention", list(inputs), list(outputs), num_heads=2,
            **attributes)
    heads("bias", q, k, v, b)
    heads("cross", q, ("k", real(2, 6, 8)), ("v", real(2, 6, 8)))
    heads("cross_heads", q, ("k", real(2, 2, 5, 4)), ("v", real(2, 2, 5, 4)))
    heads("causal", q, k, v, unidirectional=1)
    heads("lengths", q, k, v, "", ("m", np.array([3, 2], np.int32)))
    heads("keys", q, k, v, "", ("m", np.array([[1, 1, 0, 1], [0, 1, 1, 1]], np.int32)))
    heads("scores", q, k, v, "", "", ("ab", real(2, 2, 4, 4)))
    heads("past", q, k, v, "", "", "", ("pk", real(2, 2, 3, 4)), ("pv", real(2, 2, 3, 4)),
          outputs=("y", "k2", "v2"), unidirectional=1)


def add_rotary(add):
    c, s = ("c", real(16, 2)), ("s", real(16, 2))
    p = ("p", RNG.integers(0, 16, (2, 4)).astype(np.int64))
    op = "RotaryEmbedding"
    add("rotary", op, [("x", real(2, 4, 8)), p, c, s], ["y"])
    add("rotary_offset", op, [("x", real(2, 4, 8)), ("p", np.array([3], np.int64)), c, s],
        ["y"], interleaved=1)
    add("rotary_heads", op, [("x", real(2, 2, 4, 4)), p, c, s], ["y"])
    add("rotary_part", op, [("x", real(2, 4, 16)), p, c, s], ["y"], num_heads=2,
        rotary_embedding_dim=4)


def add_grouped(add):
    width, heads, shared = 16, 4, 2

    def grouped(name, batch=1, tokens=4, past=0, last=None, extra=(), packed=False, **more):
        total = past + tokens
        columns = (heads + 2 * shared if packed else heads) * width
        inputs = [("q", real(batch, tokens, columns))]
        inputs += ["", ""] if packed else [("k", real(batch, tokens, shared * width)),
                                           ("v", real(batch, tokens, shared * width))]
        inputs += [("pk", real(batch, shared, past, width)),
                   ("pv", real(batch, shared, past, width))] if past else ["", ""]
        inputs += [("l", np.array(last or [total - 1] * batch, np.int32)),
                   ("t", np.array(total, np.int32))]
        if more.get("do_rotary"):
            inputs += [("c", real(32, width // 2)), ("s", real(32, width // 2))]
        elif extra:
            inputs += ["", ""]
        add(f"gqa_{name}", "GroupQueryAttention", inputs + list(extra), ["y", "k2", "v2"],
            num_heads=heads, kv_num_heads=shared, **more)
    grouped("prompt")
    grouped("prompt_rotary", do_rotary=1)
    grouped("prompt_interleaved", do_rotary=1, rotary_interleaved=1)
    grouped("packed", packed=True, do_rotary=1)
    grouped("token", tokens=1, past=5)
    grouped("tokens", batch=2, tokens=1, past=5, do_rotary=1)
    grouped("ragged", batch=2, tokens=1, past=5, last=[5, 3], do_rotary=1)
    grouped("chunk", tokens=3, past=5, do_rotary=1)
    grouped("window", tokens=6, local_window_size=2)
    grouped("window_token", tokens=1, past=5, local_window_size=2)
    grouped("softcap", softcap=0.5)
    grouped("smooth", smooth_softmax=1)
    grouped("scale", scale=0.7)
    grouped("bias", extra=("", ("ab", real(1, heads, 4, 4))))
    grouped("sink", extra=("", "", ("h", real(heads))))
    grouped("positions", tokens=1, past=5, do_rotary=1,
            extra=(("p", np.array([[7]], np.int64)),))


# Inputs that files have as initializers.
WEIGHTS = {"b", "g", "i", "w", "as", "az", "bs", "bz", "xs", "xz", "ys", "yz", "ws", "wz", "we",
           "pe", "se", "c", "s", "z", "t"}


def add_all(cases):
    def add(name, op, inputs, outputs, domain="com.microsoft", **more):
        names = [pair[0] for pair in inputs if pair]
        cases.add(name, op, inputs, outputs, domain,
                  weights=[key for key in names[1:] if key in WEIGHTS], **more)
    add_activations(add)
    add_norms(add)
    add_products(add)
    for dtype in (np.uint8, np.int8):
        add_quantized(add, dtype)
        add_quantized_products(add, dtype)
    add_blocks(add)
    add_attention(add)
    add_multi_head(add)
    add_rotary(add)
    add_grouped(add)
