"""Prints scalar_function_values.h: the functions of one number and their slopes
to 17 digits, by mpmath with 60. Values come from the definitions in
engine/graph/functions.h, slopes from differences of these.

    python3 scalar_function_values.py > scalar_function_values.h
"""
import mpmath
from mpmath import mp, mpf

mp.dps = 60
ONE = mpf(1)


def normal(x):
    return mpmath.ncdf(x)


# UnaryFunction: (definition, [(alpha, beta)], points away from kinks)
ANY = ["-7.25", "-1.5", "-0.3", "0.2", "0.9", "2.5", "11"]
SMALL = ["-0.95", "-0.5", "-0.01", "0.3", "0.8"]
UNARY = {
    "kExp": (lambda x, a, b: mpmath.exp(x), ANY),
    "kLog": (lambda x, a, b: mpmath.log(x), ["0.003", "0.7", "1.5", "90"]),
    "kSqrt": (lambda x, a, b: mpmath.sqrt(x), ["0.003", "0.7", "1.5", "90"]),
    "kReciprocal": (lambda x, a, b: 1 / x, ANY),
    "kSin": (lambda x, a, b: mpmath.sin(x), ANY),
    "kCos": (lambda x, a, b: mpmath.cos(x), ANY),
    "kTan": (lambda x, a, b: mpmath.tan(x), SMALL),
    "kAsin": (lambda x, a, b: mpmath.asin(x), SMALL),
    "kAcos": (lambda x, a, b: mpmath.acos(x), SMALL),
    "kAtan": (lambda x, a, b: mpmath.atan(x), ANY),
    "kSinh": (lambda x, a, b: mpmath.sinh(x), ANY),
    "kCosh": (lambda x, a, b: mpmath.cosh(x), ANY),
    "kAsinh": (lambda x, a, b: mpmath.asinh(x), ANY),
    "kAcosh": (lambda x, a, b: mpmath.acosh(x), ["1.01", "1.5", "4", "60"]),
    "kAtanh": (lambda x, a, b: mpmath.atanh(x), SMALL),
    "kErf": (lambda x, a, b: mpmath.erf(x), ["-2", "-0.3", "0.2", "0.9"]),
    "kLeakyRelu": (lambda x, a, b: a * x if x < 0 else x, ANY),
    "kElu": (lambda x, a, b: a * (mpmath.exp(x) - 1) if x < 0 else x,
             ANY + ["-1e-9"]),
    "kSelu": (lambda x, a, b: b * (x if x > 0 else a * (mpmath.exp(x) - 1)),
              ANY + ["-1e-9"]),
    "kCelu": (lambda x, a, b: max(0, x) + min(0, a * (mpmath.exp(x / a) - 1)),
              ANY + ["-1e-9"]),
    "kSoftplus": (lambda x, a, b: mpmath.log(1 + mpmath.exp(x)),
                  ANY + ["-60", "300"]),
    "kSoftsign": (lambda x, a, b: x / (1 + abs(x)), ANY),
    "kHardSigmoid": (lambda x, a, b: max(mpf(0), min(ONE, a * x + b)), ANY),
    "kHardSwish": (lambda x, a, b: x * max(mpf(0), min(ONE, x / 6 + ONE / 2)),
                   ANY),
    "kSilu": (lambda x, a, b: x / (1 + mpmath.exp(-x)), ANY + ["-60", "300"]),
    "kMish": (lambda x, a, b: x * mpmath.tanh(mpmath.log(1 + mpmath.exp(x))),
              ANY + ["-60", "300"]),
    "kShrink": (lambda x, a, b: x + b if x < -a else x - b if x > a else mpf(0),
                ANY),
    "kThresholdedRelu": (lambda x, a, b: x if x > a else mpf(0), ANY),
}
ACTIVATION = {
    "kGelu": (lambda x: x * normal(x), ANY),
    "kGeluTanh": (lambda x: x / 2 * (1 + mpmath.tanh(
        mpmath.sqrt(2 / mpmath.pi) * (x + mpf("0.044715") * x ** 3))),
        ["-4.5", "-1.5", "-0.3", "0.2", "0.9", "2.5", "11"]),
    "kSigmoid": (lambda x: 1 / (1 + mpmath.exp(-x)), ANY + ["-60"]),
    "kTanh": (lambda x: mpmath.tanh(x), ["-3", "-0.3", "0.2", "0.9"]),
}
ALPHA, BETA = mpf("0.375"), mpf("0.4375")  # binary fractions


def number(x):
    return mpmath.nstr(x, 17, min_fixed=-5, max_fixed=17)


def main():
    print("""// Values and slopes of scalar functions. Written by
// scalar_function_values.py, which has the definitions.
#pragma once

#include "engine/graph/functions.h"

namespace gpupool::engine::reference {

inline constexpr double kAlpha = 0.375;
inline constexpr double kBeta = 0.4375;

template <typename Function>
struct ScalarValue {
  Function function;
  double x;
  double y;
  double slope;
};

// clang-format off
inline constexpr ScalarValue<UnaryFunction> kUnaryValues[] = {""")
    for name, (f, points) in UNARY.items():
        for point in points:
            x = mpf(float(point))
            at = lambda v: f(v, ALPHA, BETA)  # noqa: E731
            print(f"    {{UnaryFunction::{name}, {point}, {number(at(x))}, "
                  f"{number(mpmath.diff(at, x))}}},")
    print("};\n")
    print("inline constexpr ScalarValue<Activation> kActivationValues[] = {")
    for name, (f, points) in ACTIVATION.items():
        for point in points:
            x = mpf(float(point))
            print(f"    {{Activation::{name}, {point}, {number(f(x))}, "
                  f"{number(mpmath.diff(f, x))}}},")
    print("};\n// clang-format on\n")
    print("}  // namespace gpupool::engine::reference")


if __name__ == "__main__":
    main()
