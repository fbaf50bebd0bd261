#include "engine/collective/gloo_collective.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "engine/base/job_limits.h"
#include "engine/base/status_macros.h"
#include "engine/collective/gloo_mesh.h"
#include "engine/collective/gloo_store.h"

namespace gpupool::engine {
namespace {

constexpr size_t kMaxGroupName = 64;
constexpr size_t kMaxReason = 200;
constexpr size_t kMaxWaitingCalls = 4096;
// Elements per segment of a sum: bounds the scratch memory and fits the cache.
constexpr size_t kSegmentElements = size_t{1} << 20;
// The longest wait for the note of a rank whose connection closed. A live rank
// writes its note within milliseconds; a rank that died leaves none.
constexpr absl::Duration kNoteWait = absl::Milliseconds(300);
// Waits end up to this much early: Gloo counts whole milliseconds.
constexpr absl::Duration kClockSlack = absl::Milliseconds(2);

// First words of the notes that a failing rank leaves in the rendezvous.
constexpr absl::string_view kLostNote = "lost ";
constexpr absl::string_view kAbortNote = "abort ";

// Returns the key under which a rank announces itself and its group's size.
std::string PresenceKey(const GlooOptions& options, int rank) {
  return absl::StrCat(options.group, ".present.", rank);
}

// Returns the key of the note that a failing rank leaves.
std::string NoteKey(const GlooOptions& options, int rank) {
  return absl::StrCat(options.group, ".failed.", rank);
}

absl::Status CheckOptions(const GlooOptions& options) {
  if (options.size < 1 || options.size > kMaxJobDevices || options.rank < 0 ||
      options.rank >= options.size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", options.rank, " of ", options.size, ": a group has 1 to ",
        kMaxJobDevices, " ranks, counted from 0"));
  }
  if (options.group.empty() || options.group.size() > kMaxGroupName) {
    return absl::InvalidArgumentError(
        absl::StrCat("the group's name has ", options.group.size(),
                     " letters; it needs 1 ", "to ", kMaxGroupName));
  }
  if (options.timeout < absl::Milliseconds(10) ||
      options.connect_timeout < absl::Milliseconds(10) ||
      options.timeout > absl::Hours(24) ||
      options.connect_timeout > absl::Hours(24)) {
    return absl::InvalidArgumentError(
        absl::StrCat("time-outs of ", absl::FormatDuration(options.timeout),
                     " and ", absl::FormatDuration(options.connect_timeout),
                     " must be from 10ms to 24h"));
  }
  return absl::OkStatus();
}

// Announces this rank and waits for all others.
absl::Status Assemble(const GlooOptions& options, RendezvousStore& store,
                      absl::Time deadline, const std::atomic<bool>& cancelled) {
  RETURN_IF_ERROR(store.Set(PresenceKey(options, options.rank),
                            absl::StrCat(options.size)));
  for (int rank = 0; rank < options.size; ++rank) {
    const absl::StatusOr<std::string> size =
        AwaitKey(store, PresenceKey(options, rank), deadline, cancelled);
    if (absl::IsDeadlineExceeded(size.status())) {
      return absl::UnavailableError(absl::StrCat(
          "rank ", rank, " of ", options.size, " did not arrive within ",
          absl::FormatDuration(options.connect_timeout)));
    }
    RETURN_IF_ERROR(size.status());
    if (*size != absl::StrCat(options.size)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "rank ", rank, " is of a group of ", size->substr(0, 8),
          " ranks, rank ", options.rank, " of one of ", options.size));
    }
  }
  return absl::OkStatus();
}

// Returns the mesh slot of an exchange, made of its number and its size. Ranks
// whose programs differ use different slots: they run into the time-out instead
// of writing into each other's memory.
uint64_t SlotOf(uint64_t exchange, uint64_t bytes) {
  return exchange << 32 | ((bytes * 0x9e3779b97f4a7c15u) >> 32);
}

// One of `ranks` parts of `count` elements.
struct Part {
  size_t begin;
  size_t elements;
};
Part PartOf(size_t count, int rank, int ranks) {
  const size_t r = static_cast<size_t>(rank), n = static_cast<size_t>(ranks);
  const size_t begin = count * r / n;
  return {begin, count * (r + 1) / n - begin};
}

class GlooCollective : public Collective {
 public:
  GlooCollective(const GlooOptions& options, RendezvousStore* store)
      : options_(options), store_(store) {}
  ~GlooCollective() override;

  // Starts the thread and connects. Must come before any other call.
  absl::Status Start();

  int rank() const override { return options_.rank; }
  int size() const override { return options_.size; }
  absl::StatusOr<CollectiveTicket> StartAllReduce(
      absl::Span<float> values) override;
  CollectiveTicket newest() const override {
    const absl::MutexLock lock(&mutex_);
    return issued_;
  }
  absl::Status Wait(CollectiveTicket ticket) override;
  absl::Status Broadcast(absl::Span<std::byte> bytes, int root) override;
  absl::Status AllGather(absl::Span<const std::byte> mine,
                         absl::Span<std::byte> all) override;
  absl::Status Barrier() override;
  void Abort(absl::string_view reason) override;

 private:
  using Call = std::function<absl::Status()>;

  absl::StatusOr<CollectiveTicket> Enqueue(Call call);
  absl::Status RunNow(Call call);

  // These run on the thread.
  void Run();
  absl::Status Connect();
  absl::Status Exchange(absl::Span<const MeshPart> out,
                        absl::Span<const MeshPart> in, size_t bytes);
  absl::Status Sum(absl::Span<float> values);
  absl::Status SumSegment(absl::Span<float> values);
  // Returns the status of the group after `error` of the mesh, and tells the
  // other ranks.
  absl::Status Explain(const absl::Status& error);
  absl::Status BlameFor(int peer, const absl::Status& error);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !calls_.empty() || stopping_ || !abort_reason_.empty();
  }

  const GlooOptions options_;
  RendezvousStore* const store_;
  std::thread thread_;
  std::atomic<bool> aborted_{false};  // read while connecting
  uint64_t listener_ = 0;             // registration at the switch

  // Used by the thread only.
  std::unique_ptr<GlooMesh> mesh_;
  std::vector<float> scratch_;
  uint64_t exchanges_ = 0;
  absl::Time deadline_;  // the running call's

  mutable absl::Mutex mutex_;
  bool connected_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::string abort_reason_ ABSL_GUARDED_BY(mutex_);
  std::deque<Call> calls_ ABSL_GUARDED_BY(mutex_);
  CollectiveTicket issued_ ABSL_GUARDED_BY(mutex_) = 0;
  CollectiveTicket done_ ABSL_GUARDED_BY(mutex_) = 0;
  // The result of all calls after done_.
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  // The mesh that Cancel may be called on. Null before the connection and after
  // the end.
  GlooMesh* cancellable_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

GlooCollective::~GlooCollective() {
  if (options_.abort != nullptr) options_.abort->Remove(listener_);
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
    if (cancellable_ != nullptr) cancellable_->Cancel();
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status GlooCollective::Start() {
  if (options_.abort != nullptr) {
    listener_ = options_.abort->Add(
        [this](absl::string_view reason) { Abort(reason); });
  }
  thread_ = std::thread([this] { Run(); });
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](GlooCollective* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mutex_) {
        return self->connected_ || !self->failure_.ok();
      },
      this));
  return failure_;
}

absl::StatusOr<CollectiveTicket> GlooCollective::Enqueue(Call call) {
  const absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(failure_);
  if (calls_.size() >= kMaxWaitingCalls) {
    return absl::ResourceExhaustedError(
        absl::StrCat(calls_.size(), " collective calls wait, which is the ",
                     "limit; wait for some before starting more"));
  }
  calls_.push_back(std::move(call));
  return ++issued_;
}

absl::Status GlooCollective::Wait(CollectiveTicket ticket) {
  const absl::MutexLock lock(&mutex_);
  if (ticket < 1 || ticket > issued_) {
    return absl::InvalidArgumentError(absl::StrCat("collective call ", ticket,
                                                   " was never started; the ",
                                                   "last one is ", issued_));
  }
  const std::pair<GlooCollective*, CollectiveTicket> awaited(this, ticket);
  mutex_.Await(absl::Condition(
      +[](const std::pair<GlooCollective*, CollectiveTicket>* awaited)
           ABSL_NO_THREAD_SAFETY_ANALYSIS {
             return awaited->first->done_ >= awaited->second ||
                    !awaited->first->failure_.ok();
           },
      &awaited));
  return done_ >= ticket ? absl::OkStatus() : failure_;
}

absl::Status GlooCollective::RunNow(Call call) {
  ASSIGN_OR_RETURN(const CollectiveTicket ticket, Enqueue(std::move(call)));
  return Wait(ticket);
}

absl::StatusOr<CollectiveTicket> GlooCollective::StartAllReduce(
    absl::Span<float> values) {
  return Enqueue([this, values] { return Sum(values); });
}

absl::Status GlooCollective::Broadcast(absl::Span<std::byte> bytes, int root) {
  if (root < 0 || root >= size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("broadcast from rank ", root, " in a group of ", size()));
  }
  return RunNow([this, bytes, root] {
    std::vector<MeshPart> out, in;
    if (rank() != root) in.push_back({root, bytes.data(), bytes.size()});
    for (int peer = 0; peer < size() && rank() == root; ++peer) {
      if (peer != root) out.push_back({peer, bytes.data(), bytes.size()});
    }
    return Exchange(out, in, bytes.size());
  });
}

absl::Status GlooCollective::AllGather(absl::Span<const std::byte> mine,
                                       absl::Span<std::byte> all) {
  if (all.size() % static_cast<size_t>(size()) != 0 ||
      all.size() / static_cast<size_t>(size()) != mine.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("all-gather of ", mine.size(), " bytes of ", size(),
                     " ranks into ", all.size(), " bytes"));
  }
  return RunNow([this, mine, all] {
    if (mine.empty()) return Exchange({}, {}, 0);
    std::vector<MeshPart> out, in;
    for (int peer = 0; peer < size(); ++peer) {
      std::byte* place = all.data() + static_cast<size_t>(peer) * mine.size();
      if (peer == rank()) {
        std::memcpy(place, mine.data(), mine.size());
        continue;
      }
      in.push_back({peer, place, mine.size()});
      // Gloo's buffers are for both directions; sending does not write.
      out.push_back({peer, const_cast<std::byte*>(mine.data()), mine.size()});
    }
    return Exchange(out, in, mine.size());
  });
}

absl::Status GlooCollective::Barrier() {
  return RunNow([this] {
    // Every rank sends a byte to every other, so none passes before all came.
    std::byte mine{};
    std::vector<std::byte> theirs(static_cast<size_t>(size()));
    std::vector<MeshPart> out, in;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      out.push_back({peer, &mine, 1});
      in.push_back({peer, &theirs[static_cast<size_t>(peer)], 1});
    }
    return Exchange(out, in, 1);
  });
}

void GlooCollective::Abort(absl::string_view reason) {
  const absl::MutexLock lock(&mutex_);
  if (!abort_reason_.empty() || !failure_.ok()) return;
  abort_reason_ = absl::StrCat("abort: ", reason.substr(0, kMaxReason));
  aborted_ = true;
  if (cancellable_ != nullptr) cancellable_->Cancel();
}

void GlooCollective::Run() {
  // Turns a write to a dead peer into an error instead of the end of the
  // process. Gloo's own thread is started below and inherits the mask.
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);

  absl::Status status = Connect();
  if (!status.ok()) status = Explain(status);
  while (status.ok()) {
    Call call;
    {
      const absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &GlooCollective::HasWork));
      // An abort goes through Explain, which tells the other ranks; stopping
      // does not.
      if (!abort_reason_.empty()) {
        status = absl::CancelledError("aborted");
      } else if (stopping_) {
        break;
      } else {
        call = std::move(calls_.front());
        calls_.pop_front();
      }
    }
    if (status.ok()) {
      deadline_ = absl::Now() + options_.timeout;
      status = call();
    }
    if (!status.ok()) {
      status = Explain(status);
      break;
    }
    const absl::MutexLock lock(&mutex_);
    ++done_;
  }
  // The mesh goes under the lock, so Abort cannot cancel a dead mesh.
  const absl::MutexLock lock(&mutex_);
  failure_ = status.ok() ? absl::AbortedError("the collective is closed")
                         : std::move(status);
  calls_.clear();
  cancellable_ = nullptr;
  mesh_ = nullptr;
}

absl::Status GlooCollective::Connect() {
  const absl::Time deadline = absl::Now() + options_.connect_timeout;
  RETURN_IF_ERROR(Assemble(options_, *store_, deadline, aborted_));
  if (size() > 1) {
    ASSIGN_OR_RETURN(
        mesh_, GlooMesh::Connect({.rank = rank(),
                                  .size = size(),
                                  .interface = options_.interface,
                                  .key_prefix = options_.group + ".mesh."},
                                 *store_, deadline, aborted_));
  }
  const absl::MutexLock lock(&mutex_);
  cancellable_ = mesh_.get();
  connected_ = true;
  return absl::OkStatus();
}

absl::Status GlooCollective::Exchange(absl::Span<const MeshPart> out,
                                      absl::Span<const MeshPart> in,
                                      size_t bytes) {
  const uint64_t slot = SlotOf(++exchanges_, bytes);
  if (mesh_ == nullptr) return absl::OkStatus();
  return mesh_->Exchange(out, in, slot, deadline_);
}

absl::Status GlooCollective::Sum(absl::Span<float> values) {
  while (!values.empty() && size() > 1) {
    const size_t count = std::min(values.size(), kSegmentElements);
    RETURN_IF_ERROR(SumSegment(values.first(count)));
    values.remove_prefix(count);
  }
  return absl::OkStatus();
}

absl::Status GlooCollective::SumSegment(absl::Span<float> values) {
  const size_t bytes = values.size() * sizeof(float);
  const Part own = PartOf(values.size(), rank(), size());
  float* const own_data = values.data() + own.begin;
  // Space for this rank's part from every other rank.
  scratch_.resize(own.elements * static_cast<size_t>(size() - 1));
  std::vector<float*> parts;  // contributions to this rank's part
  std::vector<MeshPart> out, in, sums_out, sums_in;
  float* scratch = scratch_.data();
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) {
      parts.push_back(own_data);
      continue;
    }
    const Part part = PartOf(values.size(), peer, size());
    auto* data = reinterpret_cast<std::byte*>(values.data() + part.begin);
    out.push_back({peer, data, part.elements * sizeof(float)});
    sums_in.push_back({peer, data, part.elements * sizeof(float)});
    in.push_back({peer, reinterpret_cast<std::byte*>(scratch),
                  own.elements * sizeof(float)});
    sums_out.push_back({peer, reinterpret_cast<std::byte*>(own_data),
                        own.elements * sizeof(float)});
    parts.push_back(scratch);
    scratch += own.elements;
  }
  // First exchange: every rank receives its own part from all others. The sum
  // starts at rank 0 and not at this rank, so that every run rounds alike.
  RETURN_IF_ERROR(Exchange(out, in, bytes));
  for (size_t r = 1; r < parts.size(); ++r) {
    for (size_t i = 0; i < own.elements; ++i) parts[0][i] += parts[r][i];
  }
  if (parts[0] != own_data) {
    std::copy(parts[0], parts[0] + own.elements, own_data);
  }
  // Second exchange: every rank sends its finished part to all others.
  return Exchange(sums_out, sums_in, bytes);
}

absl::Status GlooCollective::Explain(const absl::Status& error) {
  std::string note;
  absl::Status status;
  {
    const absl::MutexLock lock(&mutex_);
    if (!abort_reason_.empty()) {
      status = absl::AbortedError(absl::StrCat("collective ", abort_reason_));
      note = absl::StrCat(kAbortNote, abort_reason_);
    } else if (stopping_) {
      return absl::AbortedError("the collective is closed");
    }
  }
  if (status.ok()) {
    const int peer = mesh_ == nullptr ? -1 : mesh_->lost_peer();
    // No peer is lost: this rank itself could not connect.
    if (peer < 0) return error;
    status = BlameFor(peer, error);
    note = absl::StrCat(kLostNote, status.message());
  }
  // If the note cannot be written, the others still see the closed connection.
  store_->Set(NoteKey(options_, rank()), note).IgnoreError();
  return status;
}

// Returns the error of a lost peer. A peer that closed its connection may only
// have noticed the loss of another rank; its note then names that rank.
absl::Status GlooCollective::BlameFor(int peer, const absl::Status& error) {
  const bool timed_out = absl::Now() + kClockSlack >= deadline_;
  const std::atomic<bool> cancelled{false};  // the wait is short
  const absl::StatusOr<std::string> note = AwaitKey(
      *store_, NoteKey(options_, peer), absl::Now() + kNoteWait, cancelled);
  if (note.ok() && absl::StartsWith(*note, kLostNote)) {
    return absl::UnavailableError(absl::StripPrefix(*note, kLostNote));
  }
  if (note.ok() && absl::StartsWith(*note, kAbortNote)) {
    return absl::UnavailableError(absl::StrCat(
        "rank ", peer, ": ", absl::StripPrefix(*note, kAbortNote)));
  }
  if (timed_out) {
    return absl::UnavailableError(absl::StrCat(
        "rank ", peer, " of ", size(), " is lost: it did not take part in ",
        "exchange ", exchanges_, " within ",
        absl::FormatDuration(options_.timeout),
        "; it hangs, or its program differs"));
  }
  return absl::UnavailableError(
      absl::StrCat("rank ", peer, " of ", size(), " is lost: its connection ",
                   "closed without a reason (", error.message(), ")"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Collective>> ConnectGloo(
    const GlooOptions& options, RendezvousStore* store) {
  RETURN_IF_ERROR(CheckOptions(options));
  auto collective = std::make_unique<GlooCollective>(options, store);
  RETURN_IF_ERROR(collective->Start());
  return collective;
}

}  // namespace gpupool::engine
