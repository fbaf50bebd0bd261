#include "engine/serving/size_analysis.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine {
namespace {

// Returns the listed sizes, or the ends of a range, in falling order.
std::vector<int64_t> SizesOf(const ServedDimension& dimension) {
  if (!dimension.sizes.empty()) {
    return {dimension.sizes.rbegin(), dimension.sizes.rend()};
  }
  if (dimension.minimum == dimension.maximum) return {dimension.maximum};
  return {dimension.maximum, dimension.minimum};
}

// Returns whether requests tell the size of the dimension by this input.
bool HasDimension(const ServedPort& port, size_t dimension) {
  return std::any_of(port.variable.begin(), port.variable.end(),
                     [&](const VariableAxis& axis) {
                       return axis.dimension == static_cast<int>(dimension);
                     });
}

// Returns whether a size of the port changes with the dimension.
bool Follows(const ServedSizes& served, const ServedPort& port,
             size_t dimension) {
  return std::any_of(port.variable.begin(), port.variable.end(),
                     [&](const VariableAxis& axis) {
                       return axis.Follows(served, dimension);
                     });
}

// Returns the declared size of a dimension that follows from others; null when
// the file declares none, or one that never changes.
const SizeExpression* DeclaredSize(const ServedSizes& served,
                                   const std::string& port, int axis) {
  for (const DerivedAxis& derived : served.derived_axes) {
    if (derived.port == port && derived.axis == axis &&
        !derived.size.names().empty()) {
      return &derived.size;
    }
  }
  return nullptr;
}

const ServedPort* FindInput(const InferencePrograms& programs,
                            const std::string& name) {
  for (const ServedPort& input : programs.inputs) {
    if (input.port.name == name) return &input;
  }
  return nullptr;
}

// Returns whether the dimension has a list of sizes and all its inputs are
// padded.
bool IsPadded(const ServedSizes& served, size_t dimension,
              const InferencePrograms& programs) {
  if (served.dimensions[dimension].sizes.empty()) return false;
  return std::all_of(programs.inputs.begin(), programs.inputs.end(),
                     [&](const ServedPort& input) {
                       return !Follows(served, input, dimension) ||
                              served.padding.contains(input.port.name);
                     });
}

// Checks that the input has a dimension with listed sizes, and that its type
// can represent the number.
absl::Status CheckPad(const ServedSizes& served, const std::string& name,
                      double number, const InferencePrograms& programs) {
  const ServedPort* input = FindInput(programs, name);
  bool listed = false;
  for (size_t d = 0; input != nullptr && d < served.dimensions.size(); ++d) {
    listed |= Follows(served, *input, d) && !served.dimensions[d].sizes.empty();
  }
  if (!listed) {
    return absl::InvalidArgumentError(absl::StrCat(
        "padding: ", input == nullptr ? "the model has no input '" : "input '",
        name, input == nullptr ? "'" : "' has no dimension with listed sizes",
        "; only such can be filled up"));
  }
  const DType dtype = input->port.dtype;
  if (RoundToDType(dtype, number) == number) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("padding: ", number, " is no number of input '", name,
                   "', which is ", DTypeName(dtype)));
}

}  // namespace

absl::StatusOr<std::vector<std::vector<int64_t>>> SizesToPlan(
    const ServedSizes& served) {
  // Each dimension gives its largest size first, so the first combination is
  // the largest.
  std::vector<std::vector<int64_t>> all = {{}};
  for (const ServedDimension& dimension : served.dimensions) {
    std::vector<std::vector<int64_t>> longer;
    for (const auto& start : all) {
      for (const int64_t size : SizesOf(dimension)) {
        longer.push_back(start);
        longer.back().push_back(size);
      }
    }
    if (longer.size() > kMaxPlannedSizes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "dimension '", dimension.name, "': the listed sizes make more than ",
          kMaxPlannedSizes, " combinations; list fewer or give a range"));
    }
    all = std::move(longer);
  }
  for (const auto& [name, size] : served.derived) {
    const absl::Status largest = served.Size(size, all[0]).status();
    if (!largest.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "dimension '", name, "': ", largest.message(),
          ", not even of the largest sizes, for which memory is planned; ",
          "serve other dimensions in several sizes"));
    }
    const SizeExpression& expression = size;
    all.erase(std::remove_if(all.begin(), all.end(),
                             [&](const std::vector<int64_t>& sizes) {
                               return !served.Size(expression, sizes).ok();
                             }),
              all.end());
  }
  return all;
}

std::vector<std::vector<int64_t>> SizesToProbe(const ServedSizes& served) {
  const std::vector<ServedDimension>& dimensions = served.dimensions;
  std::vector<int64_t> largest;
  for (const ServedDimension& dimension : dimensions) {
    largest.push_back(dimension.maximum);
  }
  std::vector<std::vector<int64_t>> probes;
  for (size_t d = 0; d < dimensions.size(); ++d) {
    const auto [minimum, maximum] =
        std::pair(dimensions[d].minimum, dimensions[d].maximum);
    std::vector<int64_t> probe = largest;
    if (minimum < maximum) {
      if (served.derived.empty() || !dimensions[d].sizes.empty()) continue;
      probe[d] = minimum + (maximum - minimum) / 2;
    } else {
      // The probe is one smaller, which most models allow.
      if (maximum <= 1) continue;
      --probe[d];
    }
    const bool possible = std::all_of(
        served.derived.begin(), served.derived.end(), [&](const auto& derived) {
          return served.Size(derived.second, probe).ok();
        });
    if (possible) probes.push_back(std::move(probe));
  }
  return probes;
}

void SizeAnalysis::Add(const std::vector<int64_t>& sizes,
                       const ModelGraph& model) {
  Sample& sample = samples_.emplace_back();
  sample.sizes = sizes;
  for (const ModelPort& port : model.inputs) {
    sample.inputs.push_back(port.shape);
  }
  for (const ModelPort& port : model.outputs) {
    sample.outputs.push_back(port.shape);
  }
}

int SizeAnalysis::FindDimension(const ServedSizes& served, size_t index,
                                bool output, int axis) const {
  for (size_t d = 0; d < served.dimensions.size(); ++d) {
    const bool equal = std::all_of(
        samples_.begin(), samples_.end(), [&](const Sample& sample) {
          const Shape& shape = (output ? sample.outputs : sample.inputs)[index];
          return shape[axis] == sample.sizes[d];
        });
    if (equal) return static_cast<int>(d);
  }
  return -1;
}

void SizeAnalysis::FindOutputSize(const ServedSizes& served, size_t output,
                                  const SizeExpression* declared,
                                  VariableAxis& axis) const {
  const auto has = [&](const SizeExpression& size) {
    return !size.names().empty() &&
           std::all_of(samples_.begin(), samples_.end(),
                       [&](const Sample& sample) {
                         const auto value = served.Size(size, sample.sizes);
                         return value.ok() &&
                                *value == sample.outputs[output][axis.axis];
                       });
  };
  if (declared != nullptr && has(*declared)) {
    axis.size = *declared;
    return;
  }
  axis.dimension = FindDimension(served, output, true, axis.axis);
  if (axis.dimension >= 0) return;
  // The file may call an output's dimension as it likes.
  for (const auto& [name, size] : served.derived) {
    if (!has(size)) continue;
    axis.size = size;
    return;
  }
}

absl::Status SizeAnalysis::FindAxesOf(const ServedSizes& served, size_t index,
                                      bool output,
                                      InferencePrograms& programs) const {
  ServedPort& port = (output ? programs.outputs : programs.inputs)[index];
  const auto shape_of = [&](const Sample& sample) -> const Shape& {
    return (output ? sample.outputs : sample.inputs)[index];
  };
  // Samples know the planned numbers only. With others an output may change
  // even if it is the same in all samples.
  const bool follows_numbers = output && !served.bound.empty();
  const Shape& first = shape_of(samples_[0]);
  for (const Sample& sample : samples_) {
    if (shape_of(sample).rank() == first.rank()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("output '", port.port.name, "' has ", first.rank(), " or ",
                     shape_of(sample).rank(),
                     " dimensions, depending on sizes; ", "serve one size"));
  }
  for (int axis = programs.batched ? 1 : 0; axis < first.rank(); ++axis) {
    VariableAxis found{.axis = axis, .maximum = first[axis]};
    bool fixed = !follows_numbers;
    for (const Sample& sample : samples_) {
      const int64_t size = shape_of(sample)[axis];
      fixed = fixed && size == first[axis];
      found.maximum = std::max(found.maximum, size);
    }
    const SizeExpression* declared = DeclaredSize(served, port.port.name, axis);
    if (output) {
      if (fixed && declared == nullptr) continue;
      if (!follows_numbers) {
        FindOutputSize(served, index, declared, found);
      }
      if (fixed && !found.IsKnown()) continue;
    } else if (declared != nullptr) {
      // Even if the samples agree: sizes between them may not.
      found.size = *declared;
    } else if (fixed) {
      continue;
    } else {
      found.dimension = FindDimension(served, index, output, axis);
    }
    if (found.size.has_value()) {
      ASSIGN_OR_RETURN(found.maximum, served.LargestSize(*found.size));
    }
    port.variable.push_back(found);
  }
  return absl::OkStatus();
}

absl::Status SizeAnalysis::FindAxes(const ServedSizes& served, bool output,
                                    InferencePrograms& programs) const {
  const size_t count =
      output ? samples_[0].outputs.size() : samples_[0].inputs.size();
  for (size_t i = 0; i < count; ++i) {
    for (const Sample& sample : samples_) {
      const size_t found =
          output ? sample.outputs.size() : sample.inputs.size();
      if (found == count) continue;
      return absl::InvalidArgumentError(
          "the number of outputs depends on sizes; serve one size");
    }
    RETURN_IF_ERROR(FindAxesOf(served, i, output, programs));
  }
  return absl::OkStatus();
}

bool SizeAnalysis::Depends(size_t output, int axis, size_t dimension) const {
  // Compares each two samples that differ in that dimension only.
  for (const Sample& a : samples_) {
    for (const Sample& b : samples_) {
      std::vector<int64_t> sizes = b.sizes;
      sizes[dimension] = a.sizes[dimension];
      if (sizes == a.sizes &&
          a.outputs[output][axis] != b.outputs[output][axis]) {
        return true;
      }
    }
  }
  return false;
}

absl::Status SizeAnalysis::CheckCutting(
    const ServedSizes& served, size_t dimension,
    const InferencePrograms& programs) const {
  for (size_t i = 0; i < programs.outputs.size(); ++i) {
    const ServedPort& output = programs.outputs[i];
    for (const VariableAxis& axis : output.variable) {
      if (axis.IsKnown() || !Depends(i, axis.axis, dimension)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "padding: dimension ", axis.axis, " of output '", output.port.name,
          "' follows from '", served.dimensions[dimension].name,
          "' but is not as large, so that results of padded requests cannot ",
          "be cut back; leave the padding away"));
    }
  }
  return absl::OkStatus();
}

absl::Status SizeAnalysis::CheckEnds(const ServedSizes& served,
                                     size_t dimension,
                                     const InferencePrograms& programs) const {
  const std::string& name = served.dimensions[dimension].name;
  for (const bool output : {false, true}) {
    for (const ServedPort& port : output ? programs.outputs : programs.inputs) {
      for (const VariableAxis& axis : port.variable) {
        if (!axis.size.has_value() || !axis.size->Uses(name) ||
            axis.size->EndsWith(name)) {
          continue;
        }
        return absl::InvalidArgumentError(absl::StrCat(
            "padding: dimension ", axis.axis, " of ",
            output ? "output '" : "input '", port.port.name, "' is '",
            axis.size->text(), "'; numbers at its end pad '", name,
            "' only if that is the last term of a sum. Leave the padding "
            "away, and let clients fill '",
            name, "' up where the model ignores it"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status SizeAnalysis::CheckPadding(
    const ServedSizes& served, const InferencePrograms& programs) const {
  if (served.padding.empty()) return absl::OkStatus();
  if (!served.bound.empty()) {
    return absl::InvalidArgumentError(
        "padding: the model has bound inputs, whose shapes cannot be cut "
        "back; leave the padding away");
  }
  for (const auto& [name, number] : served.padding) {
    RETURN_IF_ERROR(CheckPad(served, name, number, programs));
  }
  for (size_t d = 0; d < served.dimensions.size(); ++d) {
    if (!IsPadded(served, d, programs)) continue;
    RETURN_IF_ERROR(CheckEnds(served, d, programs));
    RETURN_IF_ERROR(CheckCutting(served, d, programs));
  }
  return absl::OkStatus();
}

absl::Status SizeAnalysis::Finish(const ServedSizes& served,
                                  InferencePrograms& programs) const {
  RETURN_IF_ERROR(FindAxes(served, false, programs));
  RETURN_IF_ERROR(FindAxes(served, true, programs));
  for (size_t d = 0; d < served.dimensions.size(); ++d) {
    const bool used =
        served.dimensions[d].maximum <= 1 ||
        std::any_of(
            programs.inputs.begin(), programs.inputs.end(),
            [&](const ServedPort& input) { return HasDimension(input, d); });
    if (used) continue;
    const bool followed = std::any_of(
        programs.inputs.begin(), programs.inputs.end(),
        [&](const auto& input) { return Follows(served, input, d); });
    return absl::InvalidArgumentError(absl::StrCat(
        "no input of the model has a dimension '", served.dimensions[d].name,
        "'",
        followed ? ", only sizes that follow from it, so that requests do not "
                   "tell its size; give it one size, or serve those sizes"
                 : ""));
  }
  return CheckPadding(served, programs);
}

}  // namespace gpupool::engine
