#include "benchmarks/next_batch.h"

#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::testing {

LandingLayout LandingOf(const Program& program) {
  LandingLayout layout;
  for (const Value& value : program.graph().values()) {
    if (value.kind != ValueKind::kInput || value.shape.rank() == 0) continue;
    layout.Add(value.name, value.bytes());
  }
  return layout;
}

absl::StatusOr<std::unique_ptr<NextBatchSteps>> NextBatchSteps::Create(
    const GpuCase& gpu_case, const ProgramDevice& device) {
  Transfer& transfer = device.backend->transfer();
  if (!gpu_case.training || transfer.beside() == nullptr) {
    return absl::FailedPreconditionError(
        "it takes a training case, on a device that copies beside its work");
  }
  auto steps = absl::WrapUnique(new NextBatchSteps());
  ASSIGN_OR_RETURN(steps->ahead_, CompileCase(gpu_case, device));
  ASSIGN_OR_RETURN(steps->without_, CompileCase(gpu_case, device));
  LandingLayout layout = LandingOf(steps->ahead_->program());
  for (const Value& value : steps->ahead_->program().graph().values()) {
    if (value.kind != ValueKind::kInput || value.shape.rank() == 0) continue;
    std::vector<std::byte>& rows = steps->rows_[value.name];
    rows.resize(value.bytes());
    ModelProgram::FillInput(value, 1, gpu_case.classes, rows.data());
  }
  RETURN_IF_ERROR(steps->ahead_->Load(1, layout.names()));
  RETURN_IF_ERROR(steps->without_->Load(1));
  steps->ahead_->FillInputs(1, gpu_case.classes);
  steps->without_->FillInputs(1, gpu_case.classes);
  ASSIGN_OR_RETURN(steps->landing_,
                   BatchLanding::Create(std::move(layout), "benchmark",
                                        device.allocator, &transfer));
  RETURN_IF_ERROR(steps->SendNext());
  return steps;
}

template <typename Place>
void NextBatchSteps::Gather(const Place& place) {
  for (const auto& [name, rows] : rows_) {
    const absl::Span<std::byte> to = place(name);
    GPUPOOL_CHECK(to.size() == rows.size());
    std::memcpy(to.data(), rows.data(), rows.size());
  }
}

absl::Status NextBatchSteps::SendNext() {
  Gather([&](const std::string& name) { return landing_->input(name); });
  return landing_->Send(++batch_);
}

absl::Status NextBatchSteps::StepAhead() {
  Executor& executor = ahead_->executor();
  RETURN_IF_ERROR(landing_->Take(executor));
  RETURN_IF_ERROR(executor.Start());
  const absl::Status sent = SendNext();
  RETURN_IF_ERROR(executor.Finish());
  return sent;
}

absl::Status NextBatchSteps::StepWithout() {
  Executor& executor = without_->executor();
  Gather([&](const std::string& name) { return executor.input(name); });
  return executor.Run();
}

}  // namespace gpupool::engine::testing
