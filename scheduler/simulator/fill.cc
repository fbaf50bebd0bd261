#include "scheduler/simulator/fill.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/place/fragmentation.h"
#include "scheduler/simulator/random.h"
#include "scheduler/step/invariants.h"
#include "scheduler/step/step.h"

namespace gpupool::scheduler {
namespace {

constexpr uint64_t kFillProgressEvery = 128;  // jobs

uint64_t SizeOf(const JobNeed& need) {
  return need.wanted_device == kHostKind ? 0 : need.devices * need.bytes;
}

class Filler {
 public:
  Filler(absl::Span<const FillNode> nodes, absl::Span<const JobNeed> jobs,
         const FillOptions& options)
      : nodes_(nodes), jobs_(jobs), options_(options) {}

  absl::StatusOr<FillResult> Run(FillProgress progress) {
    if (absl::Status status = AddNodes(); !status.ok()) return status;
    for (const JobNeed& job : jobs_) {
      mix_.Add(job);
      // The placement by fragmentation weighs space by the needs that it has
      // seen.
      if (options_.mix_is_known) state_.LearnNeed(job);
    }
    const std::vector<JobNeed> order =
        Tune(jobs_, capacity_, options_.ratio, options_.seed);
    for (const JobNeed& need : order) {
      if (absl::Status status = Submit(need); !status.ok()) return status;
      if (result_.jobs % kFillProgressEvery != 0) continue;
      if (!progress(static_cast<double>(result_.jobs) /
                    static_cast<double>(order.size()))) {
        return absl::CancelledError("the filling was interrupted");
      }
    }
    result_.asked = ShareOfCapacity(asked_);
    result_.allocated = ShareOfCapacity(allocated_);
    // The jobs never asked for all devices.
    if (asked_ < capacity_) result_.allocated_at_full = result_.allocated;
    if (allocated_ < capacity_) {
      result_.fragmented =
          FragmentedBytes() / static_cast<double>(capacity_ - allocated_);
    }
    return result_;
  }

 private:
  absl::Status AddNodes() {
    QueuePolicy policy;
    policy.placement = options_.rule;
    state_.SetPolicy(policy);
    for (uint32_t number = 0; number < nodes_.size(); ++number) {
      const FillNode& node = nodes_[number];
      for (uint32_t i = 0; i < node.devices; ++i) {
        state_.AddDevice(absl::StrCat(node.kind, ":", number, ".", i),
                         node.kind, kWholeDevice, {.node = number});
      }
      // Pods without a GPU need a device to run on.
      state_.AddDevice(absl::StrCat(kHostKind, ":", number), kHostKind, 0,
                       {.node = number});
      state_.SetHost(number, node.host);
      capacity_ += node.devices * kWholeDevice;
    }
    uint64_t wanted = 0;
    for (const JobNeed& job : jobs_) wanted += SizeOf(job);
    if (capacity_ == 0 || wanted == 0) {
      return absl::InvalidArgumentError(
          capacity_ == 0 ? "no node has a device; nothing can be filled"
                         : "no job needs a device; nothing can be filled");
    }
    for (uint64_t i = 0; i < state_.devices().size(); ++i) {
      Step(state_,
           WorkerReady{.device = DeviceId(i), .running = {}, .loaded = {}},
           absl::UnixEpoch());
    }
    return absl::OkStatus();
  }

  absl::Status Send(const Event& event) {
    Step(state_, event, absl::UnixEpoch());
    return options_.check_invariants ? CheckInvariants(state_)
                                     : absl::OkStatus();
  }

  absl::Status Submit(const JobNeed& need) {
    const JobId id(++result_.jobs);
    JobSubmitted event{.id = id};
    event.bytes = need.bytes;
    event.wanted_device = need.wanted_device;
    event.device_count = need.devices;
    event.demands.host = need.host;
    if (absl::Status status = Send(event); !status.ok()) return status;
    asked_ += SizeOf(need);
    if (IsLive(state_.jobs().at(id).state)) {
      allocated_ += SizeOf(need);
    } else {
      // The measurement has no time. A job that does not start at once never
      // does.
      ++result_.dropped;
      absl::Status status = Send(JobCancelRequested{id});
      if (!status.ok()) return status;
      state_.ForgetJob(id);
    }
    // This is the share that is in use when the jobs have asked for all devices
    // once.
    if (result_.allocated_at_full == 0 && asked_ >= capacity_) {
      result_.allocated_at_full = ShareOfCapacity(allocated_);
    }
    return absl::OkStatus();
  }

  double ShareOfCapacity(uint64_t size) const {
    return static_cast<double>(size) / static_cast<double>(capacity_);
  }

  double FragmentedBytes() const {
    std::vector<SiteSpace> sites(nodes_.size());
    std::vector<const Machine*> machines(nodes_.size());
    for (const auto& [id, device] : state_.devices()) {
      const Machine& machine = state_.machines()[device.machine];
      machines[device.machine] = &machine;
      SiteSpace& site = sites[device.machine];
      if (device.kind == kHostKind) continue;
      site.kind = device.kind;
      site.free.push_back(device.free_bytes());
    }
    double bytes = 0;
    for (size_t i = 0; i < sites.size(); ++i) {
      bytes += Fragmentation(sites[i], *machines[i], mix_.typical());
    }
    return bytes;
  }

  absl::Span<const FillNode> nodes_;
  absl::Span<const JobNeed> jobs_;
  const FillOptions& options_;
  State state_;
  NeedHistory mix_;
  uint64_t capacity_ = 0;
  uint64_t asked_ = 0;
  uint64_t allocated_ = 0;
  FillResult result_;
};

}  // namespace

std::vector<JobNeed> Tune(absl::Span<const JobNeed> jobs, uint64_t capacity,
                          double ratio, uint64_t seed) {
  const double most = ratio * static_cast<double>(capacity);
  Random random(seed);
  std::vector<JobNeed> order(jobs.begin(), jobs.end());
  for (size_t i = order.size(); i > 1; --i) {  // Fisher and Yates
    std::swap(order[i - 1], order[random.Below(i)]);
  }
  double asked = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    asked += static_cast<double>(SizeOf(order[i]));
    if (asked <= most) continue;
    order.resize(i);
    return order;
  }
  // The jobs asked for less than wanted, so some are drawn again. Without any
  // need the loop would never end.
  while (asked > 0) {
    const JobNeed& job = jobs[random.Below(jobs.size())];
    asked += static_cast<double>(SizeOf(job));
    if (asked > most) break;
    order.push_back(job);
  }
  return order;
}

absl::StatusOr<FillResult> FillPool(absl::Span<const FillNode> nodes,
                                    absl::Span<const JobNeed> jobs,
                                    const FillOptions& options,
                                    FillProgress progress) {
  return Filler(nodes, jobs, options).Run(progress);
}

}  // namespace gpupool::scheduler
