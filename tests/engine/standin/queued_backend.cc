#include "tests/engine/standin/queued_backend.h"

#include <optional>
#include <string>
#include <vector>

#include "engine/base/status_macros.h"

namespace gpupool::engine::standin {
namespace {

class QueuedKernel : public Kernel {
 public:
  QueuedKernel(std::unique_ptr<Kernel> kernel, const ProtectedPages* pages,
               WorkQueue* queue)
      : kernel_(std::move(kernel)), pages_(pages), queue_(queue) {}

  uint64_t workspace_bytes() const override {
    return kernel_->workspace_bytes();
  }
  uint64_t resident_bytes() const override { return kernel_->resident_bytes(); }
  std::string resident_format() const override {
    return kernel_->resident_format();
  }
  absl::Status Bind(const KernelBuffers& buffers) override {
    KernelBuffers real;
    for (std::byte* input : buffers.inputs) {
      real.inputs.push_back(pages_->Real(input));
    }
    for (std::byte* output : buffers.outputs) {
      real.outputs.push_back(pages_->Real(output));
    }
    real.workspace = pages_->Real(buffers.workspace);
    real.resident = pages_->Real(buffers.resident);
    return kernel_->Bind(real);
  }
  absl::Status Prepare() override {
    queue_->Add([kernel = kernel_.get()] { return kernel->Prepare(); });
    return absl::OkStatus();
  }
  absl::Status Run() override {
    queue_->Add([kernel = kernel_.get()] { return kernel->Run(); });
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<Kernel> kernel_;
  const ProtectedPages* const pages_;
  WorkQueue* const queue_;
};

class QueuedRecording : public Recording {
 public:
  QueuedRecording(std::function<absl::Status()> queue_run, WorkQueue* queue)
      : queue_run_(std::move(queue_run)), queue_(queue) {}

  absl::Status Start() override {
    if (recorded_.has_value()) {
      for (const WorkQueue::Work& work : *recorded_) queue_->Add(work);
      return absl::OkStatus();
    }
    const size_t before = queue_->size();
    RETURN_IF_ERROR(queue_run_());
    recorded_ = queue_->Since(before);
    return absl::OkStatus();
  }

 private:
  const std::function<absl::Status()> queue_run_;
  WorkQueue* const queue_;
  std::optional<std::vector<WorkQueue::Work>> recorded_;
};

}  // namespace

absl::Status QueuedTransfer::CopyToDevice(std::byte* to,
                                          absl::Span<const std::byte> from) {
  queue_->Add([to = pages_->Real(to), from] {
    return HostMemory().CopyToDevice(to, from);
  });
  return absl::OkStatus();
}

absl::Status QueuedTransfer::CopyFromDevice(absl::Span<std::byte> to,
                                            const std::byte* from) {
  queue_->Add([to, from = pages_->Real(from)] {
    return HostMemory().CopyFromDevice(to, from);
  });
  return absl::OkStatus();
}

absl::Status QueuedTransfer::CopyOnDevice(std::byte* to, const std::byte* from,
                                          uint64_t bytes) {
  queue_->Add([to = pages_->Real(to), from = pages_->Real(from), bytes] {
    return HostMemory().CopyOnDevice(to, from, bytes);
  });
  return absl::OkStatus();
}

absl::Status QueuedTransfer::Clear(std::byte* to, uint64_t bytes) {
  queue_->Add(
      [to = pages_->Real(to), bytes] { return HostMemory().Clear(to, bytes); });
  return absl::OkStatus();
}

absl::Status QueuedTransfer::Synchronize() {
  queue_->Drain();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<StagingBuffer>> QueuedTransfer::AllocateStaging(
    uint64_t bytes) {
  return HostMemory().AllocateStaging(bytes);
}

absl::StatusOr<std::unique_ptr<Kernel>> QueuedBackend::Compile(
    const CompileRequest& request) {
  ASSIGN_OR_RETURN(auto kernel, kernels_->Compile(request));
  return std::make_unique<QueuedKernel>(std::move(kernel), pages_, &queue_);
}

absl::Status QueuedBackend::FinishRun(const Graph& graph) {
  queue_.Drain();
  const absl::Status failed = queue_.TakeError();
  const absl::Status finished = kernels_->FinishRun(graph);
  return failed.ok() ? finished : failed;
}

std::unique_ptr<Recording> QueuedBackend::Record(
    std::function<absl::Status()> queue) {
  return std::make_unique<QueuedRecording>(std::move(queue), &queue_);
}

}  // namespace gpupool::engine::standin
