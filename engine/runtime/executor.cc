#include "engine/runtime/executor.h"

#include <cstring>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/align.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/runtime/constants.h"

namespace gpupool::engine {
namespace {

// Returns the address of a persistent value, whose type must match.
absl::StatusOr<std::byte*> FindWeight(const WeightStore& weights,
                                      const Value& value) {
  const WeightEntry* entry = weights.layout().Find(value.name);
  if (entry != nullptr && entry->dtype == value.dtype &&
      entry->shape == value.shape) {
    return weights.address_of(*entry);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the weight store has ", entry == nullptr ? "no" : "another",
                   " \"", value.name, "\"; the program wants ",
                   DTypeName(value.dtype), value.shape.ToString()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(
    Program program, const ExecutorMemory& memory,
    absl::Span<const std::string> brought) {
  const auto& [weights, arena, holder, allocator] = memory;
  // A smaller arena would let kernels write into the memory of others.
  GPUPOOL_CHECK(arena.size() >= program.bytes().arena);
  std::unique_ptr<Executor> executor(new Executor(std::move(program), memory));
  for (const ResidentItem& item : executor->program_.bytes().residents) {
    ASSIGN_OR_RETURN(auto block, weights.Resident(item, holder, allocator));
    executor->residents_.push_back(std::move(block));
  }
  executor->program_.backend().BeginRun();
  RETURN_IF_ERROR(executor->Bind(weights, arena));
  RETURN_IF_ERROR(executor->FillConstants());
  RETURN_IF_ERROR(executor->Stage(brought));
  // The recordings refer to the executor, whose address is stable from here on.
  Executor* self = executor.get();
  DeviceBackend& backend = executor->program_.backend();
  executor->recording_ = backend.Record([self]() { return self->QueueRun(); });
  executor->kernels_recording_ =
      backend.Record([self]() { return self->QueueKernels(); });
  return executor;
}

absl::Status Executor::Bind(const WeightStore& weights,
                            absl::Span<std::byte> arena) {
  const Graph& graph = program_.graph();
  const Liveness& liveness = program_.liveness();
  addresses_.assign(graph.values().size(), nullptr);
  for (size_t i = 0; i < addresses_.size(); ++i) {
    const int index = liveness.buffer_of[i];
    // A value without a buffer is read by no kernel.
    if (index < 0) continue;
    const Buffer& buffer = liveness.buffers[static_cast<size_t>(index)];
    if (buffer.place == Place::kPersistent) {
      ASSIGN_OR_RETURN(addresses_[i],
                       FindWeight(weights, graph.value(buffer.root)));
      continue;
    }
    // An offset in the arena, or the position of a resident block.
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
    // Kernels of loading run once, in Load.
    if (node.stage == Stage::kStep) steps_.push_back(launch.kernel.get());
  }
  return absl::OkStatus();
}

absl::Status Executor::FillConstants() {
  std::vector<std::byte> copy;
  for (const Value& value : program_.graph().values()) {
    std::byte* data = address(value.id);
    if (value.kind != ValueKind::kConstant || data == nullptr) continue;
    if (transfer_->host_visible()) {
      WriteConstant(value, data);
      continue;
    }
    // The copy to the device before this one may still read `copy`.
    RETURN_IF_ERROR(transfer_->Synchronize());
    copy.resize(value.bytes());
    WriteConstant(value, copy.data());
    RETURN_IF_ERROR(transfer_->CopyToDevice(data, copy));
  }
  return transfer_->Synchronize();
}

// Allocates one staging buffer for the inputs and outputs of a run.
absl::Status Executor::Stage(absl::Span<const std::string> brought) {
  // The host writes inputs into the arena itself, so nothing has to be staged.
  if (transfer_->host_visible()) return absl::OkStatus();
  const Graph& graph = program_.graph();
  for (const Value& value : graph.values()) {
    if (value.kind == ValueKind::kInput && address(value.id) != nullptr &&
        !absl::c_linear_search(brought, value.name)) {
      staged_inputs_.push_back({value.id, {}});
    }
  }
  for (const GraphOutput& output : graph.outputs()) {
    if (absl::c_linear_search(brought, output.name)) continue;
    staged_outputs_.push_back({output.value, {}});
  }
  uint64_t total = 0;
  for (auto* list : {&staged_inputs_, &staged_outputs_}) {
    for (const Staged& staged : *list) {
      // One allocation serves all, because pinned memory is slow to allocate.
      total += AlignUp(graph.value(staged.value).bytes());
    }
  }
  ASSIGN_OR_RETURN(staging_, transfer_->AllocateStaging(total));
  std::byte* next = staging_->data();
  for (auto* list : {&staged_inputs_, &staged_outputs_}) {
    for (Staged& staged : *list) {
      const uint64_t bytes = graph.value(staged.value).bytes();
      staged.host = {next, bytes};
      next += AlignUp(bytes);
    }
  }
  return absl::OkStatus();
}

absl::Span<std::byte> Executor::host_bytes(const std::vector<Staged>& staged,
                                           const Value& value) const {
  if (transfer_->host_visible()) return {address(value.id), value.bytes()};
  for (const Staged& one : staged) {
    if (one.value == value.id) return one.host;
  }
  return {};
}

absl::Span<std::byte> Executor::input(absl::string_view name) const {
  const Value* value = program_.graph().FindValue(name);
  if (value == nullptr || value->kind != ValueKind::kInput) return {};
  return host_bytes(staged_inputs_, *value);
}

absl::Span<const std::byte> Executor::output(absl::string_view name) const {
  const auto id = program_.graph().FindOutput(name);
  if (!id.has_value()) return {};
  return host_bytes(staged_outputs_, program_.graph().value(*id));
}

absl::Status Executor::Load() {
  program_.backend().BeginRun();
  auto& launches = program_.launches();
  // A load node's kernel may read what an earlier load node made, so each is
  // prepared right before it runs. Kernels of steps are prepared afterwards,
  // when all derived weights exist.
  for (size_t i = 0; i < program_.load_launches(); ++i) {
    RETURN_IF_ERROR(launches[i].kernel->Prepare());
    RETURN_IF_ERROR(launches[i].kernel->Run());
  }
  for (size_t i = program_.load_launches(); i < launches.size(); ++i) {
    RETURN_IF_ERROR(launches[i].kernel->Prepare());
  }
  return program_.backend().FinishRun(program_.graph());
}

absl::Status Executor::QueueInputs() {
  for (const Staged& staged : staged_inputs_) {
    RETURN_IF_ERROR(
        transfer_->CopyToDevice(address(staged.value), staged.host));
  }
  return absl::OkStatus();
}

absl::Status Executor::QueueOutputs() {
  for (const Staged& staged : staged_outputs_) {
    RETURN_IF_ERROR(
        transfer_->CopyFromDevice(staged.host, address(staged.value)));
  }
  return absl::OkStatus();
}

absl::Status Executor::QueueKernels() {
  for (Kernel* kernel : steps_) RETURN_IF_ERROR(kernel->Run());
  return absl::OkStatus();
}

absl::Status Executor::QueueRun() {
  RETURN_IF_ERROR(QueueInputs());
  RETURN_IF_ERROR(QueueKernels());
  return QueueOutputs();
}

absl::Status Executor::QueueInput(const HostInput& input) {
  const Value* value = program_.graph().FindValue(input.name);
  if (value == nullptr || value->kind != ValueKind::kInput ||
      input.bytes.size() > value->bytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the program has no input \"", input.name, "\" of ",
                     input.bytes.size(), " bytes or more"));
  }
  std::byte* const to = address(value->id);
  if (to == nullptr) return absl::OkStatus();  // nothing reads it
  absl::Span<const std::byte> from = input.bytes;
  // The device cannot read this memory, so it goes through staging.
  if (!from.empty() && !Reaches(from)) {
    const auto staged = host_bytes(staged_inputs_, *value).first(from.size());
    std::memcpy(staged.data(), from.data(), from.size());
    from = staged;
  }
  RETURN_IF_ERROR(transfer_->CopyToDevice(to, from));
  // Bytes that the caller does not give must not be left from earlier runs.
  return transfer_->Clear(to + from.size(), value->bytes() - from.size());
}

absl::Status Executor::QueueOutput(const HostOutput& output) {
  const auto id = program_.graph().FindOutput(output.name);
  if (!id.has_value() ||
      output.bytes.size() > program_.graph().value(*id).bytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the program has no output \"", output.name, "\" of ",
                     output.bytes.size(), " bytes or more"));
  }
  absl::Span<std::byte> to = output.bytes;
  if (!to.empty() && !Reaches(to)) {
    to = host_bytes(staged_outputs_, program_.graph().value(*id))
             .first(to.size());
  }
  return transfer_->CopyFromDevice(to, address(*id));
}

absl::Status Executor::StartOn(absl::Span<const HostInput> inputs,
                               absl::Span<const HostOutput> outputs) {
  program_.backend().BeginRun();
  for (const HostInput& input : inputs) RETURN_IF_ERROR(QueueInput(input));
  // The copies change addresses between runs, so they are not recorded.
  RETURN_IF_ERROR(kernels_recording_ != nullptr ? kernels_recording_->Start()
                                                : QueueKernels());
  for (const HostOutput& output : outputs) RETURN_IF_ERROR(QueueOutput(output));
  return absl::OkStatus();
}

absl::Status Executor::RunOn(absl::Span<const HostInput> inputs,
                             absl::Span<const HostOutput> outputs) {
  const absl::Status started = StartOn(inputs, outputs);
  // Waits even after an error: work that was queued before it must end, and its
  // faults must not count for the next run.
  const absl::Status finished = Finish();
  RETURN_IF_ERROR(started);
  RETURN_IF_ERROR(finished);
  // Outputs that the device cannot reach were copied to staging memory.
  for (const HostOutput& output : outputs) {
    if (output.bytes.empty() || Reaches(output.bytes)) continue;
    const absl::Span<const std::byte> staged = this->output(output.name);
    std::memcpy(output.bytes.data(), staged.data(), output.bytes.size());
  }
  return absl::OkStatus();
}

absl::Status Executor::Bring(absl::string_view name,
                             absl::Span<const std::byte> from) {
  const Value* value = program_.graph().FindValue(name);
  GPUPOOL_CHECK(value != nullptr && value->kind == ValueKind::kInput);
  GPUPOOL_CHECK(from.size() == value->bytes());
  if (address(value->id) == nullptr) return absl::OkStatus();
  return transfer_->CopyOnDevice(address(value->id), from.data(), from.size());
}

absl::Status Executor::Take(absl::string_view name, std::byte* to) {
  const auto id = program_.graph().FindOutput(name);
  GPUPOOL_CHECK(id.has_value());
  const uint64_t bytes = program_.graph().value(*id).bytes();
  if (bytes == 0) return absl::OkStatus();
  return transfer_->CopyOnDevice(to, address(*id), bytes);
}

absl::Status Executor::Start() {
  program_.backend().BeginRun();
  return recording_ != nullptr ? recording_->Start() : QueueRun();
}

absl::Status Executor::Finish() {
  return program_.backend().FinishRun(program_.graph());
}

absl::Status Executor::Run() {
  const absl::Status started = Start();
  // Waits even after an error: work that was queued before it must end, and its
  // faults must not count for the next run.
  const absl::Status finished = Finish();
  return started.ok() ? finished : started;
}

// Uses the device's timer. On a device that works in the background, waiting
// after each node would be counted as well.
absl::Status Executor::RunTimed(Profile* profile, LaunchTimer* timer) {
  program_.backend().BeginRun();
  RETURN_IF_ERROR(QueueInputs());
  RETURN_IF_ERROR(timer->Start());
  const int64_t begin = absl::GetCurrentTimeNanos();
  std::vector<uint64_t> held(program_.graph().nodes().size(), 0);
  for (const Launch& launch : program_.launches()) {
    const auto number = static_cast<size_t>(launch.node);
    if (program_.graph().nodes()[number].stage != Stage::kStep) continue;
    held[number] = HeldBytes();
    RETURN_IF_ERROR(timer->Mark(launch.node));
    RETURN_IF_ERROR(launch.kernel->Run());
  }
  RETURN_IF_ERROR(timer->Mark(-1));
  RETURN_IF_ERROR(QueueOutputs());
  RETURN_IF_ERROR(Finish());
  ASSIGN_OR_RETURN(const std::vector<NodeTime> times, timer->Stop());
  // The timer has a clock of its own. The shift moves its times to the host's
  // clock.
  const int64_t shift = times.empty() ? 0 : begin - times.front().begin_nanos;
  for (const NodeTime& time : times) {
    profile->Add(time.node, time.begin_nanos + shift, time.end_nanos + shift,
                 held[static_cast<size_t>(time.node)]);
  }
  profile->EndRun();
  return absl::OkStatus();
}

absl::Status Executor::RunProfiled(Profile* profile, LaunchTimer* timer) {
  if (timer != nullptr) return RunTimed(profile, timer);
  program_.backend().BeginRun();
  RETURN_IF_ERROR(QueueInputs());
  RETURN_IF_ERROR(transfer_->Synchronize());
  for (const Launch& launch : program_.launches()) {
    const Node& node =
        program_.graph().nodes()[static_cast<size_t>(launch.node)];
    if (node.stage != Stage::kStep) continue;
    const uint64_t held = HeldBytes();
    // Waits after each node, so that the clock measures that node alone.
    const int64_t begin = absl::GetCurrentTimeNanos();
    RETURN_IF_ERROR(launch.kernel->Run());
    RETURN_IF_ERROR(transfer_->Synchronize());
    profile->Add(launch.node, begin, absl::GetCurrentTimeNanos(), held);
  }
  RETURN_IF_ERROR(QueueOutputs());
  profile->EndRun();
  return Finish();
}

}  // namespace gpupool::engine
