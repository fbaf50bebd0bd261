// Random graphs of one op each, for comparing back ends.
#pragma once

#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "engine/backends/reference/interpreter.h"
#include "engine/graph/builder.h"

namespace gpupool::engine {

// A graph under construction with random numbers for its inputs.
class OpCase {
 public:
  explicit OpCase(uint32_t seed) : random_(seed), builder_(&graph_) {}

  // Returns a uniform number in [low, high].
  int64_t Pick(int64_t low, int64_t high);
  bool Coin() { return Pick(0, 1) == 1; }

  // Adds inputs or persistent values with uniform float32 numbers.
  ValueId Floats(const Shape& shape, double low = -2, double high = 2);
  ValueId Weights(const Shape& shape, double low = -1, double high = 1);
  // Adds multiples of 1/2, so that some numbers are equal.
  ValueId CoarseFloats(const Shape& shape);
  // Adds uniform whole numbers in [low, high].
  ValueId Integers(const Shape& shape, DType dtype, int64_t low, int64_t high);
  ValueId Scalar(DType dtype, double number);

  // Adds the node and makes all its outputs outputs of the graph.
  void Emit(Op op, std::vector<ValueId> inputs, Attributes attributes = {});
  // Does the same. Output i overwrites the i-th of `updated`.
  void EmitUpdate(Op op, std::vector<ValueId> inputs, Attributes attributes,
                  std::vector<ValueId> updated);

  // Sets the layout of all 4-D values that are not weights.
  void UseChannelsLast();

  Graph& graph() { return graph_; }
  reference::NamedNumbers inputs;
  reference::NamedNumbers persistents;

 private:
  reference::Numbers Uniform(const Shape& shape, double low, double high);

  std::mt19937 random_;
  Graph graph_;
  GraphBuilder builder_;
  int names_ = 0;
};

// Makes the clip coefficient of an optimizer's case NaN. Returns false if the
// case has none.
bool UndefineClip(OpCase& at);

// Changes all float32 values of the case to `dtype` and rounds its inputs.
// Returns false if the op does not take that type.
bool ChangeFloats(OpCase& at, DType dtype);
// Does the same, but parameters and statistics of a normalisation stay float32.
// Returns false for other ops.
bool ChangeNormalised(OpCase& at, DType dtype);

// Returns 1.5 units in the last place of numbers around 1.
double ToleranceOf(DType dtype);

struct OpCaseMaker {
  std::string name;
  std::function<void(OpCase&)> build;
  // Largest error, relative to 1 + the largest number of the output.
  double tolerance = 2e-6;
};

inline void PrintTo(const OpCaseMaker& maker, std::ostream* out) {
  *out << maker.name;
}

std::vector<OpCaseMaker> ElementwiseOpCases();  // with broadcasting; reductions
std::vector<OpCaseMaker> CoreOpCases();         // movement, indexing, attention
std::vector<OpCaseMaker> BasicOpCases();        // elementwise, products, layout
std::vector<OpCaseMaker> ImageOpCases();        // convolutions, pools
std::vector<OpCaseMaker> CodesOpCases();        // codes of 8 bits
std::vector<OpCaseMaker> TrainingOpCases();     // norms, losses, optimizers
std::vector<OpCaseMaker> AllOpCases();

// Returns the case with that seed. Images have either layout.
OpCase MakeOpCase(const OpCaseMaker& maker, uint32_t seed);

}  // namespace gpupool::engine
