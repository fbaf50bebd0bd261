#include "server/ipc/work_page.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

constexpr uint64_t kMagic = 0x33656761506b726f;  // "orkPage3"
constexpr size_t kTextBytes = 480;
// Window of a moving average, in pieces: the newest one counts one part in 16.
constexpr int64_t kMeanWindow = 16;
// Most averages that are kept.
constexpr size_t kMostMeans = 256;

int64_t Now() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

}  // namespace

// steady_clock is the machine's clock, so that times of two processes compare.
static_assert(std::chrono::steady_clock::period::den == 1'000'000'000);

struct WorkPage::Layout {
  struct Owner {
    std::atomic<uint64_t> job;
    std::atomic<uint64_t> version;

    void Set(const WorkOwner& owner) {
      job.store(owner.job_id, std::memory_order_release);
      version.store(owner.version_id, std::memory_order_release);
    }
    WorkOwner Get() const {
      return {job.load(std::memory_order_acquire),
              version.load(std::memory_order_acquire)};
    }
  };

  std::atomic<uint64_t> magic;
  std::atomic<int64_t> since;  // 0: idle
  std::atomic<uint32_t> phase;
  std::atomic<int32_t> fault;
  std::atomic<int64_t> mean;  // of the present work's owner; 0: none
  Owner owner;
  Owner fault_owner;                  // written before `fault` is set
  std::array<char, kTextBytes> text;  // written before `fault` is set
};

absl::string_view WorkPhaseText(WorkPhase phase) {
  switch (phase) {
    case WorkPhase::kStep:
      return "a training step";
    case WorkPhase::kInfer:
      return "a batch of requests";
    case WorkPhase::kGroupStep:
      return "a training step with other devices";
    case WorkPhase::kOther:
      break;
  }
  return "compiling, loading, evaluating or saving";
}

bool HasUsualDuration(WorkPhase phase) {
  return phase == WorkPhase::kStep || phase == WorkPhase::kInfer;
}

// Writes the magic number last, so that a page with it is initialized.
absl::StatusOr<WorkPage> WorkPage::Create() {
  ASSIGN_OR_RETURN(MemoryRegion region,
                   MemoryRegion::Create("gpupool-work", sizeof(Layout)));
  WorkPage page(std::move(region));
  auto* layout = new (page.region_.data()) Layout;
  layout->since = 0;
  layout->phase = 0;
  layout->fault = 0;
  layout->owner.Set({});
  layout->fault_owner.Set({});
  layout->mean = 0;
  layout->text.fill('\0');
  layout->magic = kMagic;
  return page;
}

absl::StatusOr<WorkPage> WorkPage::Attach(UniqueFd fd) {
  ASSIGN_OR_RETURN(MemoryRegion region, MemoryRegion::Attach(std::move(fd)));
  if (region.bytes() < sizeof(Layout)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a work page has ", sizeof(Layout), " bytes; got ", region.bytes()));
  }
  WorkPage page(std::move(region));
  if (page.layout().magic != kMagic) {
    return absl::InvalidArgumentError("the region is no work page");
  }
  return page;
}

WorkPage::Layout& WorkPage::layout() const {
  return *std::launder(reinterpret_cast<Layout*>(region_.data()));
}

// Shows the piece. A reader that sees the new phase, owner or mean also sees
// that `since` is not the old one any more.
void WorkPage::Show(const Piece& piece) {
  Layout& page = layout();
  page.since.store(0, std::memory_order_release);
  page.phase.store(static_cast<uint32_t>(piece.phase),
                   std::memory_order_release);
  page.owner.Set(piece.owner);
  const bool has_mean = HasUsualDuration(piece.phase);
  page.mean.store(has_mean ? MeanOf(piece).nanoseconds : 0,
                  std::memory_order_release);
  page.since.store(piece.since, std::memory_order_release);
}

// Returns the mean of the piece's phase and owner, and makes it the newest one.
// Forgets the oldest when there are too many.
WorkPage::Mean& WorkPage::MeanOf(const Piece& piece) {
  // From the newest one on, which is the usual one.
  const auto found =
      std::find_if(means_.rbegin(), means_.rend(), [&](const Mean& mean) {
        return mean.phase == piece.phase && mean.owner == piece.owner;
      });
  if (found != means_.rend()) {
    std::rotate(found.base() - 1, found.base(), means_.end());
    return means_.back();
  }
  if (means_.size() == kMostMeans) means_.erase(means_.begin());
  return means_.emplace_back(Mean{piece.phase, piece.owner});
}

void WorkPage::Begin(WorkPhase phase, WorkOwner owner) {
  pieces_.push_back({phase, Now(), owner});
  Show(pieces_.back());
}

WorkOwner WorkPage::End() {
  GPUPOOL_CHECK(!pieces_.empty());
  const Piece ended = pieces_.back();
  pieces_.pop_back();
  const int64_t took = Now() - ended.since;
  // Time of the inner piece does not count for the outer one.
  if (!pieces_.empty()) pieces_.back().since += took;
  if (HasUsualDuration(ended.phase)) {
    int64_t& mean = MeanOf(ended).nanoseconds;
    mean = mean == 0 ? took : mean + (took - mean) / kMeanWindow;
  }
  Show(pieces_.empty() ? Piece() : pieces_.back());
  return ended.owner;
}

// Writes the text and the owner before the code, which readers look at first.
void WorkPage::SetFault(int exit_code, absl::string_view text,
                        WorkOwner owner) {
  Layout& page = layout();
  const absl::string_view cut = text.substr(0, kTextBytes);
  std::memcpy(page.text.data(), cut.data(), cut.size());
  page.fault_owner.Set(owner);
  page.fault.store(exit_code, std::memory_order_release);
}

WorkReading WorkPage::Read() const {
  const Layout& page = layout();
  WorkReading reading;
  reading.fault = page.fault.load(std::memory_order_acquire);
  if (reading.fault != 0) {
    reading.fault_text.assign(page.text.data(),
                              ::strnlen(page.text.data(), page.text.size()));
    reading.owner = page.fault_owner.Get();
  }
  const int64_t since = page.since.load(std::memory_order_acquire);
  const uint32_t phase = page.phase.load(std::memory_order_acquire);
  const WorkOwner owner = page.owner.Get();
  const int64_t mean = page.mean.load(std::memory_order_acquire);
  // Changed between the two reads: as good as idle.
  if (since != page.since.load(std::memory_order_relaxed)) return reading;
  if (since <= 0 || phase >= kWorkPhases) return reading;
  reading.busy = true;
  if (reading.fault == 0) reading.owner = owner;
  reading.phase = static_cast<WorkPhase>(phase);
  reading.age = std::chrono::nanoseconds(std::max<int64_t>(Now() - since, 0));
  reading.mean = std::chrono::nanoseconds(std::max<int64_t>(mean, 0));
  return reading;
}

}  // namespace gpupool::server
