#include "engine/runtime/executor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/align.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/runtime/constants.h"

namespace gpupool::engine {
namespace {

absl::StatusOr<std::byte*> FindWeight(const WeightStore& weights,
                                      const Value& value) {
  const WeightEntry* entry = weights.layout().Find(value.name);
  if (entry != nullptr && entry->dtype == value.dtype &&
      entry->shape == value.shape) {
    return weights.bytes_of(*entry).data();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the weight store has ", entry == nullptr ? "no" : "another",
                   " \"", value.name, "\"; the program wants ",
                   DTypeName(value.dtype), value.shape.ToString()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(
    Program program, const WeightStore& weights, absl::Span<std::byte> arena,
    const std::string& holder, CachingAllocator* allocator) {
  GPUPOOL_CHECK(arena.size() >= program.bytes().arena);
  std::unique_ptr<Executor> executor(new Executor(std::move(program)));
  for (const ResidentItem& item : executor->program_.bytes().residents) {
    ASSIGN_OR_RETURN(auto block, weights.Resident(item, holder, allocator));
    executor->residents_.push_back(std::move(block));
  }
  executor->program_.backend().BeginRun();
  RETURN_IF_ERROR(executor->Bind(weights, arena));
  executor->FillConstants();
  return executor;
}

absl::Status Executor::Bind(const WeightStore& weights,
                            absl::Span<std::byte> arena) {
  const Graph& graph = program_.graph();
  const Liveness& liveness = program_.liveness();
  addresses_.assign(graph.values().size(), nullptr);
  for (size_t i = 0; i < addresses_.size(); ++i) {
    const int index = liveness.buffer_of[i];
    if (index < 0) continue;
    const Buffer& buffer = liveness.buffers[static_cast<size_t>(index)];
    if (buffer.place == Place::kPersistent) {
      ASSIGN_OR_RETURN(addresses_[i],
                       FindWeight(weights, graph.value(buffer.root)));
      continue;
    }
    const uint64_t at = program_.buffer_offset(index);
    addresses_[i] = buffer.place == Place::kArena ? arena.data() + at
                                                  : residents_[at]->data();
  }
  for (Launch& launch : program_.launches()) {
    const Node& node = graph.nodes()[static_cast<size_t>(launch.node)];
    KernelBuffers buffers;
    for (ValueId id : node.inputs) buffers.inputs.push_back(address(id));
    for (ValueId id : node.outputs) buffers.outputs.push_back(address(id));
    buffers.workspace = arena.data() + launch.workspace_offset;
    if (launch.resident >= 0) {
      buffers.resident =
          residents_[static_cast<size_t>(launch.resident)]->data();
    }
    RETURN_IF_ERROR(launch.kernel->Bind(buffers));
    if (node.stage == Stage::kStep) steps_.push_back(launch.kernel.get());
  }
  return absl::OkStatus();
}

void Executor::FillConstants() {
  for (const Value& value : program_.graph().values()) {
    std::byte* data = address(value.id);
    if (value.kind == ValueKind::kConstant && data != nullptr) {
      WriteConstant(value, data);
    }
  }
}

absl::Span<std::byte> Executor::input(absl::string_view name) const {
  const Value* value = program_.graph().FindValue(name);
  if (value == nullptr || value->kind != ValueKind::kInput) return {};
  return {address(value->id), value->bytes()};
}

absl::Span<const std::byte> Executor::output(absl::string_view name) const {
  const auto id = program_.graph().FindOutput(name);
  if (!id.has_value()) return {};
  return {address(*id), program_.graph().value(*id).bytes()};
}

absl::Status Executor::Load() {
  program_.backend().BeginRun();
  auto& launches = program_.launches();
  for (size_t i = 0; i < program_.load_launches(); ++i) {
    RETURN_IF_ERROR(launches[i].kernel->Prepare());
    RETURN_IF_ERROR(launches[i].kernel->Run());
  }
  for (size_t i = program_.load_launches(); i < launches.size(); ++i) {
    RETURN_IF_ERROR(launches[i].kernel->Prepare());
  }
  return absl::OkStatus();
}

absl::Status Executor::Run() {
  program_.backend().BeginRun();
  for (Kernel* kernel : steps_) RETURN_IF_ERROR(kernel->Run());
  return absl::OkStatus();
}

absl::Status Executor::RunProfiled(Profile* profile) {
  program_.backend().BeginRun();
  for (const Launch& launch : program_.launches()) {
    const Node& node =
        program_.graph().nodes()[static_cast<size_t>(launch.node)];
    if (node.stage != Stage::kStep) continue;
    const int64_t begin = absl::GetCurrentTimeNanos();
    RETURN_IF_ERROR(launch.kernel->Run());
    profile->Add(launch.node, begin, absl::GetCurrentTimeNanos());
  }
  profile->EndRun();
  return absl::OkStatus();
}

}  // namespace gpupool::engine
