#include "engine/backends/cuda/streams/cupti_timer.h"

#include <cupti.h>

#include <cstdlib>
#include <utility>

#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/backends/cuda/driver/shared_library.h"
#include "engine/backends/cuda/streams/activity_times.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {
namespace {

// CUPTI asks for buffers of this size as it needs them, and wants them aligned
// to 8 bytes.
constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr size_t kBufferAlignment = 8;
// Records of work on the device and of the calls that queued it.
constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
    // Correlations only come with records of calls.
    CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER};
// Marks work of no node. CUPTI's ids are unsigned, so node n is n + 1.
constexpr uint64_t kNoNode = 0;

struct CuptiFunctions {
  decltype(&::cuptiActivityEnable) enable = nullptr;
  decltype(&::cuptiActivityDisable) disable = nullptr;
  decltype(&::cuptiActivityFlushAll) flush = nullptr;
  decltype(&::cuptiActivityGetNextRecord) next = nullptr;
  decltype(&::cuptiActivityRegisterCallbacks) set_callbacks = nullptr;
  decltype(&::cuptiActivityPushExternalCorrelationId) push = nullptr;
  decltype(&::cuptiActivityPopExternalCorrelationId) pop = nullptr;
};

absl::StatusOr<CuptiFunctions> FindCupti(const std::string& folders) {
  ASSIGN_OR_RETURN(const SharedLibrary library,
                   SharedLibrary::Open("libcupti.so.13", folders));
  CuptiFunctions f;
  RETURN_IF_ERROR(
      library.Find({{"cuptiActivityEnable", f.enable},
                    {"cuptiActivityDisable", f.disable},
                    {"cuptiActivityFlushAll", f.flush},
                    {"cuptiActivityGetNextRecord", f.next},
                    {"cuptiActivityRegisterCallbacks", f.set_callbacks},
                    {"cuptiActivityPushExternalCorrelationId", f.push},
                    {"cuptiActivityPopExternalCorrelationId", f.pop}}));
  return f;
}

absl::Status StatusOf(CUptiResult code, absl::string_view what) {
  if (code == CUPTI_SUCCESS) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(what, ": CUPTI says ", static_cast<int>(code)));
}

// The timing that runs in this process. It is global, since CUPTI's callbacks
// carry no pointer of ours and come on CUPTI's threads.
ABSL_CONST_INIT absl::Mutex running_mutex(absl::kConstInit);
struct Running {
  const CuptiFunctions* functions = nullptr;
  ActivityTimes* times = nullptr;  // null: records are dropped
};
Running running ABSL_GUARDED_BY(running_mutex);

void CUPTIAPI GiveBuffer(uint8_t** buffer, size_t* size, size_t* most) {
  // CUPTI drops records when it gets no buffer.
  *buffer =
      static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most = 0;  // no limit but the size
}

void AddRecord(const CUpti_Activity& record, ActivityTimes& times) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel =
          reinterpret_cast<const CUpti_ActivityKernel10&>(record);
      times.AddWork(kernel.correlationId, static_cast<int64_t>(kernel.start),
                    static_cast<int64_t>(kernel.end));
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = reinterpret_cast<const CUpti_ActivityMemcpy6&>(record);
      times.AddWork(copy.correlationId, static_cast<int64_t>(copy.start),
                    static_cast<int64_t>(copy.end));
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& set = reinterpret_cast<const CUpti_ActivityMemset4&>(record);
      times.AddWork(set.correlationId, static_cast<int64_t>(set.start),
                    static_cast<int64_t>(set.end));
      break;
    }
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& call =
          reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(record);
      times.AddCall(call.correlationId, static_cast<int>(call.externalId) - 1);
      break;
    }
    default:
      break;
  }
}

void CUPTIAPI TakeBuffer(CUcontext, uint32_t, uint8_t* buffer, size_t,
                         size_t valid) {
  {
    absl::MutexLock lock(&running_mutex);
    CUpti_Activity* record = nullptr;
    while (running.times != nullptr &&
           running.functions->next(buffer, valid, &record) == CUPTI_SUCCESS) {
      AddRecord(*record, *running.times);
    }
  }
  // CUPTI hands each buffer back exactly once, also when nobody takes the
  // records.
  std::free(buffer);
}

class CuptiTimer : public LaunchTimer {
 public:
  explicit CuptiTimer(const CuptiFunctions& functions)
      : functions_(functions) {}
  ~CuptiTimer() override {
    // A timer that did not begin must not stop the one that did.
    if (!begun_) return;
    End();
    absl::MutexLock lock(&running_mutex);
    running = {};
  }
  CuptiTimer(const CuptiTimer&) = delete;
  CuptiTimer& operator=(const CuptiTimer&) = delete;

  absl::Status Begin() {
    {
      absl::MutexLock lock(&running_mutex);
      if (running.functions != nullptr) {
        return absl::FailedPreconditionError("another timer uses CUPTI");
      }
      running.functions = &functions_;
      begun_ = true;
    }
    RETURN_IF_ERROR(StatusOf(functions_.set_callbacks(GiveBuffer, TakeBuffer),
                             "starting CUPTI"));
    // A trial run, since CUPTI reports missing privileges only when recording
    // starts.
    const absl::Status works = Start();
    End();
    return works;
  }

  absl::Status Start() override {
    times_ = ActivityTimes();
    {
      absl::MutexLock lock(&running_mutex);
      running.times = &times_;
    }
    for (const CUpti_ActivityKind kind : kKinds) {
      RETURN_IF_ERROR(StatusOf(functions_.enable(kind), "recording activity"));
    }
    return Push(kNoNode);
  }

  absl::Status Mark(int node) override {
    uint64_t last = 0;
    RETURN_IF_ERROR(
        StatusOf(functions_.pop(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last),
                 "marking a node"));
    pushed_ = false;
    return Push(node < 0 ? kNoNode : static_cast<uint64_t>(node) + 1);
  }

  absl::StatusOr<std::vector<NodeTime>> Stop() override {
    const absl::Status flushed = StatusOf(functions_.flush(0), "reading times");
    End();
    RETURN_IF_ERROR(flushed);
    return times_.Times();
  }

 private:
  absl::Status Push(uint64_t id) {
    const absl::Status pushed =
        StatusOf(functions_.push(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, id),
                 "marking a node");
    pushed_ = pushed.ok();
    return pushed;
  }
  void End() {
    if (pushed_) {
      uint64_t last = 0;
      functions_.pop(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last);
      pushed_ = false;
    }
    for (const CUpti_ActivityKind kind : kKinds) functions_.disable(kind);
    // Fetches all records, so that none arrives later.
    functions_.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    absl::MutexLock lock(&running_mutex);
    running.times = nullptr;
  }

  const CuptiFunctions functions_;
  ActivityTimes times_;
  bool begun_ = false;  // whether this timer is the one that uses CUPTI
  bool pushed_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LaunchTimer>> MakeCuptiTimer(
    const std::string& folders) {
  ASSIGN_OR_RETURN(const CuptiFunctions functions, FindCupti(folders));
  auto timer = std::make_unique<CuptiTimer>(functions);
  RETURN_IF_ERROR(timer->Begin());
  return timer;
}

}  // namespace gpupool::engine::cuda
