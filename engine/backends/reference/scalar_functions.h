// Functions of one or two numbers, for the elementwise ops, straight from their
// definitions (engine/graph/functions.h). Pure.
//
// They are the oracle of the other back ends, so they share neither code nor
// formulas with these: composed functions are computed in long double, by other
// identities. Their own test is against numbers of many digits.
#pragma once

#include "engine/graph/attributes.h"
#include "engine/graph/ops.h"
#include "engine/tensor/dtype.h"

namespace gpupool::engine::reference {

// Returns f(x). NaN gives NaN, except for kIsNan, kIsInf and kNot.
double Apply(const UnaryAttributes& unary, double x);

// Returns f'(x). At a kink it is the slope that PyTorch takes.
double Derivative(const UnaryAttributes& unary, double x);

// Returns f(a, b) for elements of type `dtype`. Comparisons give 0 or 1. The
// result of integers is whole but may lie outside the type. Integer division,
// modulo and remainder by 0 give 0. So does 0 to a negative power.
double Apply(BinaryFunction function, DType dtype, double a, double b);

// Returns the activation of kRelu, kGelu, kSigmoid, kTanh and their gradients.
// Returns kNone for every other op.
Activation ActivationOf(Op op, const Attributes& attributes);

// Return the activation of x. The first takes no Activation::kUnary.
double Activate(Activation activation, double x);
double Activate(const Epilogue& epilogue, double x);

// Returns the slope that gives dx when multiplied by dy. `saved` is y, or x for
// GELUs. Takes no Activation::kUnary.
double ActivationSlope(Activation activation, double saved);

}  // namespace gpupool::engine::reference
