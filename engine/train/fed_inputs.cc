#include "engine/train/fed_inputs.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/quoted_names.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

template <typename T>
absl::Span<T> CellsAs(absl::Span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

absl::Status CheckPort(const ModelPort& input) {
  if (!input.batched) {
    return Refuse(
        "the model cannot be trained on rows of a dataset: its input '",
        input.name, "' has no batch dimension in front");
  }
  if (input.dtype == DType::kFloat32 || input.dtype == DType::kInt32 ||
      input.dtype == DType::kInt64) {
    return absl::OkStatus();
  }
  return Refuse("the model's input '", input.name, "' is ",
                DTypeName(input.dtype),
                "; training feeds float32, int32 and int64 inputs");
}

// Checks that a row has as many numbers as an example of the input.
absl::Status CheckRowNumbers(const ModelPort& input,
                             const std::vector<int64_t>& shape) {
  const auto wanted = static_cast<uint64_t>(input.example().elements());
  ASSIGN_OR_RETURN(const uint64_t found, CheckedElementCount(shape));
  if (wanted == found) return absl::OkStatus();
  return Refuse("the model's input '", input.name, "' ",
                input.example().ToString(), " takes ", wanted,
                " numbers, but a row of the dataset has ", found, " (shape [",
                absl::StrJoin(shape, ","), "]); make them agree");
}

// Feeds a model from a dataset without named inputs.
absl::StatusOr<std::vector<FedInput>> FeedFeatures(
    const std::vector<ModelPort>& inputs, const DataFacts& facts) {
  if (inputs.size() == 1) {
    RETURN_IF_ERROR(CheckRowNumbers(inputs[0], facts.feature_shape));
    return std::vector<FedInput>{{.name = inputs[0].name}};
  }
  std::string names, flags;
  for (const ModelPort& input : inputs) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", input.name);
    absl::StrAppend(&flags, " --input ", input.name, "=ARRAY");
  }
  return Refuse("the model has ", inputs.size(), " inputs (", names,
                "), but the dataset has one array of features; upload an NPZ "
                "archive with an array for each input (gpupool datasets upload",
                flags, ")");
}

// Feeds one input of the model from the dataset's input of that name.
absl::StatusOr<FedInput> FeedByName(const ModelPort& input,
                                    const DataFacts& facts) {
  const auto found = std::find_if(
      facts.inputs.begin(), facts.inputs.end(),
      [&](const ArrayFacts& array) { return array.name == input.name; });
  if (found == facts.inputs.end()) {
    return Refuse("the model's input '", input.name,
                  "' is not in the dataset, which has ",
                  QuotedNames(facts.inputs),
                  "; upload it with gpupool datasets upload --input ",
                  input.name, "=ARRAY");
  }
  RETURN_IF_ERROR(CheckRowNumbers(input, found->shape));
  if (input.dtype != DType::kFloat32 && IsFloating(FromProto(found->type))) {
    return Refuse("the model's input '", input.name, "' is ",
                  DTypeName(input.dtype), ", but the dataset's array is of ",
                  "floating-point numbers; store it as ",
                  DTypeName(input.dtype));
  }
  return FedInput{.name = input.name,
                  .column = static_cast<size_t>(found - facts.inputs.begin())};
}

// Checks that a column of floating-point numbers feeds an integer input without
// a change. Conversion keeps whole numbers up to these limits (column.h).
absl::Status CheckWholeNumbers(const Column& column, const std::string& name,
                               DType dtype) {
  const int64_t limit = dtype == DType::kInt32
                            ? std::numeric_limits<int32_t>::max()
                            : int64_t{1} << 53;
  const std::optional<PlacedNumber> found =
      FirstNotWhole(column, static_cast<double>(limit));
  if (!found.has_value()) return absl::OkStatus();
  const int digits = column.type == ElementType::kFloat64 ? 17 : 9;
  return Refuse("row ", found->position / column.width,
                " of the dataset, counted from 0, has ",
                absl::StrFormat("%.*g", digits, found->number), " as number ",
                found->position % column.width, " for the model's input '",
                name, "', which is ", DTypeName(dtype),
                " and takes whole numbers from -", limit, " to ", limit,
                "; mend the row or make the input float32");
}

absl::Status CheckInt32(const Column& column, const std::string& name) {
  const bool larger = column.type == ElementType::kUint32 ||
                      column.type == ElementType::kInt64 ||
                      column.type == ElementType::kUint64;
  if (!larger) return absl::OkStatus();
  constexpr uint64_t kChunkNumbers = 16 << 10;
  const uint64_t count = column.rows * column.width;
  std::vector<int64_t> chunk;
  for (uint64_t done = 0; done < count; done += chunk.size()) {
    chunk.resize(std::min(kChunkNumbers, count - done));
    Convert(column, done, absl::MakeSpan(chunk));
    for (size_t i = 0; i < chunk.size(); ++i) {
      if (std::in_range<int32_t>(chunk[i])) continue;
      return Refuse("row ", (done + i) / column.width,
                    " of the dataset, counted from 0, has ", chunk[i],
                    " for the model's input '", name,
                    "', which is int32; mend the row or make the input int64");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<FedInput>> FeedModel(
    const std::vector<ModelPort>& inputs, const DataFacts& facts) {
  if (inputs.empty()) {
    return Refuse("the model has no input; training needs one for its rows");
  }
  for (const ModelPort& input : inputs) RETURN_IF_ERROR(CheckPort(input));
  if (!facts.assumed && facts.inputs.empty()) {
    return FeedFeatures(inputs, facts);
  }
  std::vector<FedInput> fed;
  for (const ModelPort& input : inputs) {
    if (facts.assumed) {
      fed.push_back({.name = input.name, .column = fed.size()});
    } else {
      ASSIGN_OR_RETURN(fed.emplace_back(), FeedByName(input, facts));
    }
  }
  return fed;
}

absl::StatusOr<size_t> FindTarget(const std::string& field,
                                  const std::string& target, DataFacts& facts) {
  if (facts.assumed) return size_t{0};
  if (facts.targets.empty()) {
    if (target.empty()) return size_t{0};
    return Refuse(field, ": the dataset has no target '", target,
                  "', only labels without a name; leave target out, or upload "
                  "an NPZ archive with --target ",
                  target, "=ARRAY");
  }
  const std::string names = QuotedNames(facts.targets);
  if (target.empty() && facts.targets.size() > 1) {
    return Refuse(field, ": the dataset has the targets ", names,
                  "; list the losses in training.losses, each with its target");
  }
  const auto found = std::find_if(
      facts.targets.begin(), facts.targets.end(), [&](const ArrayFacts& array) {
        return target.empty() || array.name == target;
      });
  if (found == facts.targets.end()) {
    return Refuse(field, ": the dataset has no target '", target, "'; it has ",
                  names);
  }
  facts.labels = found->labels;
  return static_cast<size_t>(found - facts.targets.begin());
}

const Column& FedColumn(const Table& table, const FedInput& fed) {
  return (fed.target ? table.targets : table.inputs)[fed.column];
}

absl::Status CheckFedNumbers(const Table& table, absl::Span<const FedInput> fed,
                             const Graph& graph) {
  // Random numbers are from 0 to 1, whatever the dataset has.
  if (table.random) return absl::OkStatus();
  for (const FedInput& input : fed) {
    const Value* value = graph.FindValue(input.name);
    if (value == nullptr || IsFloating(value->dtype)) continue;
    const Column& column = FedColumn(table, input);
    // Labels have checks of their own (label_check.h).
    if (!input.target && IsFloating(column.type)) {
      RETURN_IF_ERROR(CheckWholeNumbers(column, input.name, value->dtype));
    }
    if (value->dtype == DType::kInt32) {
      RETURN_IF_ERROR(CheckInt32(column, input.name));
    }
  }
  return absl::OkStatus();
}

absl::Status FillInputs(const FedBatch& batch, const Graph& graph,
                        InputBytes input) {
  RETURN_IF_ERROR(batch.table.CheckWhole());
  for (const FedInput& fed : batch.fed) {
    const absl::Span<std::byte> bytes = input(fed.name);
    if (bytes.empty()) continue;
    const Column& column = FedColumn(batch.table, fed);
    switch (graph.FindValue(fed.name)->dtype) {
      case DType::kInt32:
        Gather(column, batch.rows, CellsAs<int32_t>(bytes));
        break;
      case DType::kInt64:
        Gather(column, batch.rows, CellsAs<int64_t>(bytes));
        break;
      default:
        Gather(column, batch.rows, CellsAs<float>(bytes));
    }
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine
