#include "tests/engine/standin/queued_backend.h"

#include <string>
#include <vector>

#include "engine/base/check.h"
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

class CapturedWork : public CapturedRun {
 public:
  CapturedWork(std::vector<WorkQueue::Work> work, WorkQueue* queue)
      : work_(std::move(work)), queue_(queue) {}
  absl::Status Launch() override {
    for (const WorkQueue::Work& work : work_) queue_->Add(work);
    return absl::OkStatus();
  }
  uint64_t bytes() const override { return work_.size() * kCapturedPieceBytes; }

 private:
  const std::vector<WorkQueue::Work> work_;
  WorkQueue* const queue_;
};

class QueuedStaging : public StagingBuffer {
 public:
  QueuedStaging(std::unique_ptr<StagingBuffer> memory, uint64_t bytes,
                HostSide* host)
      : memory_(std::move(memory)),
        range_(memory_->data(), bytes),
        host_(host) {
    GPUPOOL_CHECK(bytes == 0 || host_->staging.Add(range_));
  }
  ~QueuedStaging() override { host_->staging.Remove(range_); }
  QueuedStaging(const QueuedStaging&) = delete;
  QueuedStaging& operator=(const QueuedStaging&) = delete;
  std::byte* data() const override { return memory_->data(); }

 private:
  const std::unique_ptr<StagingBuffer> memory_;
  const absl::Span<const std::byte> range_;
  HostSide* const host_;
};

class QueuedRegistration : public HostRegistration {
 public:
  QueuedRegistration(absl::Span<std::byte> range, HostSide* host)
      : range_(range), host_(host) {
    ++host_->registrations;
  }
  ~QueuedRegistration() override {
    host_->registered.Remove(range_);
    ++host_->unregistrations;
  }
  QueuedRegistration(const QueuedRegistration&) = delete;
  QueuedRegistration& operator=(const QueuedRegistration&) = delete;

 private:
  const absl::Span<std::byte> range_;
  HostSide* const host_;
};

}  // namespace

void QueuedTransfer::AddCopy(absl::Span<const std::byte> host,
                             WorkQueue::Work copy) {
  if (host.empty()) return;
  if (is_beside_) ++host_->copies_beside;
  if (host_->registered.Hold(host)) {
    GPUPOOL_CHECK(!queue_->capturing());
    ++host_->registered_copies;
    queue_->Add([side = host_, host, copy = std::move(copy)] {
      GPUPOOL_CHECK(side->registered.Hold(host));  // still registered
      return copy();
    });
    return;
  }
  if (host_->staging.Hold(host)) {
    ++host_->staged_copies;
    queue_->Add([side = host_, host, copy = std::move(copy)] {
      GPUPOOL_CHECK(side->staging.Hold(host));  // still there
      return copy();
    });
    return;
  }
  ++host_->pageable_copies;
  pageable_ = true;
  queue_->Add(std::move(copy));
}

absl::Status QueuedTransfer::TakePageableCopy() {
  if (!std::exchange(pageable_, false)) return absl::OkStatus();
  return absl::InternalError(
      "a run copied host memory that is neither registered nor staging");
}

absl::Status QueuedTransfer::CopyToDevice(std::byte* to,
                                          absl::Span<const std::byte> from) {
  AddCopy(from, [to = pages_->Real(to), from] {
    return HostMemory().CopyToDevice(to, from);
  });
  return absl::OkStatus();
}

absl::Status QueuedTransfer::CopyFromDevice(absl::Span<std::byte> to,
                                            const std::byte* from) {
  AddCopy(to, [to, from = pages_->Real(from)] {
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
  pageable_ = false;
  return absl::OkStatus();
}

absl::Status QueuedTransfer::Await(Transfer& other) {
  queue_->Await(*static_cast<QueuedTransfer&>(other).queue_);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<StagingBuffer>> QueuedTransfer::AllocateStaging(
    uint64_t bytes) {
  ASSIGN_OR_RETURN(auto memory, HostMemory().AllocateStaging(bytes));
  return std::make_unique<QueuedStaging>(std::move(memory), bytes, host_);
}

absl::StatusOr<std::unique_ptr<HostRegistration>> QueuedTransfer::Register(
    absl::Span<std::byte> host) {
  RETURN_IF_ERROR(host_->refusal);
  if (!host_->registered.Add(host)) {
    return absl::InvalidArgumentError("registered already, or nothing");
  }
  return std::make_unique<QueuedRegistration>(host, host_);
}

absl::StatusOr<std::unique_ptr<CapturedRun>> WorkCapturer::Capture(
    const std::function<absl::Status()>& queue) {
  queue_->BeginCapture();
  const absl::Status queued = queue();
  std::vector<WorkQueue::Work> work = queue_->EndCapture();
  if (!queued.ok()) return nullptr;
  return std::make_unique<CapturedWork>(std::move(work), queue_);
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
  RETURN_IF_ERROR(beside_.TakePageableCopy());
  RETURN_IF_ERROR(transfer_.TakePageableCopy());
  return failed.ok() ? finished : failed;
}

}  // namespace gpupool::engine::standin
