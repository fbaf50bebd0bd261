#include "engine/serving/stage_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine {
namespace {

// Returns the integer; the nearest one of its type if it is beyond that.
int64_t ToInteger(double number) {
  if (std::isnan(number)) return 0;
  // This is 2^63, the first double that no int64_t can hold. A cast of it would
  // be undefined.
  constexpr double kLimit = 9223372036854775808.0;
  if (number >= kLimit) return std::numeric_limits<int64_t>::max();
  if (number <= -kLimit) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(number);
}

// Returns the condition of a loop.
bool GoesOn(const StageEnd& end, const std::vector<StageNumbers>& reads) {
  if (end.goes_on.has_value()) return *end.goes_on;
  // The condition is the last of the numbers that a stage reads.
  return reads.back().numbers[0] != 0;
}

}  // namespace

std::vector<std::string> PassedNames(
    const Program& program, const StageEnd* end,
    absl::Span<const std::string> host_inputs) {
  std::vector<std::string> names;
  for (const Value& value : program.graph().values()) {
    if (value.kind == ValueKind::kInput &&
        !absl::c_linear_search(host_inputs, value.name)) {
      names.push_back(value.name);
    }
  }
  if (end == nullptr) return names;
  for (const GraphOutput& output : program.graph().outputs()) {
    const bool read = absl::c_any_of(end->reads, [&](const StageTensor& one) {
      return one.name == output.name;
    });
    // An output that the host reads is not passed on.
    if (!read) names.push_back(output.name);
  }
  return names;
}

absl::Status StageRun::Bring(Executor& executor) {
  for (const Value& value : executor.program().graph().values()) {
    const StageStore& store = walk_.store();
    if (value.kind != ValueKind::kInput || !store.Has(value.name)) continue;
    // There may be space for more rows than the loop had iterations.
    GPUPOOL_CHECK(store.size(value.name) >= value.bytes());
    RETURN_IF_ERROR(
        executor.Bring(value.name, {store.data(value.name), value.bytes()}));
  }
  return absl::OkStatus();
}

absl::StatusOr<StageRun::Reads> StageRun::Read(
    Executor& executor, const StageEnd& end,
    absl::Span<const HostInput> inputs) {
  RETURN_IF_ERROR(Bring(executor));
  std::vector<std::vector<std::byte>> bytes;
  for (const StageTensor& read : end.reads) {
    bytes.emplace_back(read.type.shape.bytes(read.type.dtype));
  }
  std::vector<HostOutput> outputs;
  for (size_t i = 0; i < bytes.size(); ++i) {
    // An empty tensor has no memory on the device that could be copied.
    if (bytes[i].empty()) continue;
    outputs.push_back({end.reads[i].name, absl::MakeSpan(bytes[i])});
  }
  RETURN_IF_ERROR(executor.RunOn(inputs, outputs));
  Reads reads;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const TensorType& type = end.reads[i].type;
    StageNumbers& numbers = reads.emplace_back();
    numbers.type = type;
    numbers.numbers.resize(static_cast<size_t>(type.shape.elements()));
    ReadAsDoubles(type.dtype, bytes[i].data(), 1,
                  absl::MakeSpan(numbers.numbers));
  }
  return reads;
}

absl::Status StageRun::Run(ProgramCache::Entry& stage,
                           absl::Span<const HostInput> inputs) {
  const StageEnd& end = *stage.stage_end;
  // The condition of a loop may never become false. The limit ends such a
  // request.
  if (++stages_ > kMaxRunStages) {
    return absl::ResourceExhaustedError(absl::StrCat(
        end.node, ": the request has run ", kMaxRunStages, " stages, the most ",
        "for one; its loops go on too long"));
  }
  Executor& executor = *stage.executor;
  ASSIGN_OR_RETURN(const Reads reads, Read(executor, end, inputs));
  StageWalk::Sizes bytes;
  const Graph& graph = executor.program().graph();
  for (const GraphOutput& output : graph.outputs()) {
    bytes[output.name] = graph.value(output.value).bytes();
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> made,
                   walk_.Receive(end, bytes));
  for (const std::string& name : made) {
    RETURN_IF_ERROR(executor.Take(name, walk_.store().data(name)));
  }
  switch (end.kind) {
    case StageEnd::Kind::kBranch:
      walk_.TakeBranch(reads[0].numbers[0] != 0);
      return absl::OkStatus();
    case StageEnd::Kind::kCompute:
      return Compute(end, reads);
    case StageEnd::Kind::kLoop:
      return Begin(executor, end, reads);
    case StageEnd::Kind::kIteration:
      return Iterate(executor, end, reads);
  }
  return absl::OkStatus();
}

absl::Status StageRun::Write(const std::string& name,
                             const StageNumbers& numbers) {
  std::vector<std::byte> bytes(numbers.type.shape.bytes(numbers.type.dtype));
  if (bytes.empty()) return absl::OkStatus();
  GPUPOOL_CHECK(walk_.store().size(name) == bytes.size());
  WriteFromDoubles(numbers.type.dtype, numbers.numbers, 1, bytes.data());
  RETURN_IF_ERROR(transfer_->CopyToDevice(walk_.store().data(name), bytes));
  // `bytes` ends with this function, so the copy has to be over.
  return transfer_->Synchronize();
}

absl::Status StageRun::Compute(const StageEnd& end, const Reads& reads) {
  const auto results = end.call.run(reads);
  if (!results.ok()) return AtPlace(end.node, results.status());
  GPUPOOL_CHECK(results->rows <= end.call.most_rows);
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   walk_.AddResults(end, results->rows));
  for (size_t i = 0; i < names.size(); ++i) {
    RETURN_IF_ERROR(Write(names[i], results->tensors[i]));
  }
  walk_.TakeResults(results->rows);
  return absl::OkStatus();
}

absl::Status StageRun::TakeStates(Executor& executor, const StageEnd& end) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, walk_.AddStates(end));
  for (size_t i = 0; i < names.size(); ++i) {
    RETURN_IF_ERROR(
        executor.Take(end.states[i].name, walk_.store().data(names[i])));
  }
  return absl::OkStatus();
}

absl::Status StageRun::SetIteration(const StageEnd& end) {
  const std::string name = StageInputName(end.place, "iteration");
  if (!walk_.store().Has(name)) return absl::OkStatus();
  return Write(name, {{DType::kInt64, Shape()},
                      {static_cast<double>(walk_.iteration())}});
}

absl::Status StageRun::Begin(Executor& executor, const StageEnd& end,
                             const Reads& reads) {
  RETURN_IF_ERROR(TakeStates(executor, end));
  // ONNX's Loop without a trip count is limited by its condition only.
  int64_t trips = end.trips.value_or(std::numeric_limits<int64_t>::max());
  if (end.reads_trips) trips = ToInteger(reads[0].numbers[0]);
  RETURN_IF_ERROR(walk_.BeginLoop(end, trips, GoesOn(end, reads)));
  return SetIteration(end);
}

absl::Status StageRun::Iterate(Executor& executor, const StageEnd& end,
                               const Reads& reads) {
  RETURN_IF_ERROR(TakeStates(executor, end));
  ASSIGN_OR_RETURN(const auto places, walk_.AddRows(end));
  for (size_t i = 0; i < places.size(); ++i) {
    const auto& [name, offset] = places[i];
    RETURN_IF_ERROR(
        executor.Take(end.rows[i].name, walk_.store().data(name) + offset));
  }
  RETURN_IF_ERROR(walk_.EndIteration(end, GoesOn(end, reads)));
  return SetIteration(end);
}

}  // namespace gpupool::engine
