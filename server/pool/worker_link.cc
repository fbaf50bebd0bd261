#include "server/pool/worker_link.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/pool/worker_environment.h"
#include "server/pool/worker_port.h"
#include "server/pool/worker_settings.h"
#include "spdlog/spdlog.h"

namespace gpupool::server {
namespace {

using worker::v1::FromWorker;
using worker::v1::ToWorker;

// Interval between attempts to connect to a starting worker.
constexpr std::chrono::milliseconds kConnectInterval{5};
// Messages taken from one worker before the others get their turn.
constexpr int kMessagesPerTurn = 256;
// Time within which a worker ends after a fault, if it ends at all.
constexpr std::chrono::seconds kFaultGrace{2};

std::chrono::nanoseconds Nanoseconds(absl::Duration duration) {
  // An infinite duration would become the largest number, and its sum with the
  // present time would overflow.
  return absl::ToChronoNanoseconds(std::min(duration, absl::Hours(24 * 365)));
}

absl::Status ReplyStatus(const FromWorker& message) {
  if (message.code() == 0) return absl::OkStatus();
  // A worker sends the numbers of absl::StatusCode.
  return absl::Status(static_cast<absl::StatusCode>(message.code()),
                      message.error());
}

}  // namespace

WorkerLink::WorkerLink(const PoolOptions& options, const PoolDevice& device,
                       WorkerPaths paths, WorkerObserver* observer)
    : options_(options),
      device_(device),
      paths_(std::move(paths)),
      observer_(observer),
      acknowledged_(device.last_report_sequence),
      forwarded_(device.last_report_sequence),
      backoff_(options.backoff_min) {}

WorkerLink::~WorkerLink() {
  DropConnection(absl::UnavailableError("the server is stopping"));
}

void WorkerLink::SetState(State state) {
  state_ = state;
  absl::MutexLock lock(&mutex_);
  switch (state) {
    case State::kStarting:
    case State::kGreeting:
      status_.state = WorkerStatus::State::kStarting;
      break;
    case State::kReady:
      status_.state = WorkerStatus::State::kReady;
      break;
    case State::kBackingOff:
      status_.state = WorkerStatus::State::kBackingOff;
      break;
    case State::kQuarantined:
      status_.state = WorkerStatus::State::kQuarantined;
      break;
    case State::kStopped:
      status_.state = WorkerStatus::State::kStopped;
      break;
  }
  status_.pid = process_.has_value() ? process_->pid() : 0;
  status_.restarts = spawns_ > 0 ? spawns_ - 1 : 0;
}

// ------------------------------------------------------ starting, greeting

void WorkerLink::Start() {
  SetState(State::kStarting);
  const Clock::time_point now = Clock::now();
  start_deadline_ = now + Nanoseconds(options_.start_timeout);
  next_try_ = now + kConnectInterval;
  TryConnect();
  if (state_ != State::kStarting) return;
  // A second worker beside one that hangs would share its device.
  if (process_.has_value() && !process_->HowItEnded().has_value()) {
    KillAndLose(absl::UnavailableError(absl::StrCat(
        "the old worker, process ", process_->pid(), ", does not end")));
    return;
  }
  Spawn();
}

void WorkerLink::TryConnect() {
  absl::StatusOr<ControlChannel> channel =
      ControlChannel::Connect(paths_.socket);
  if (channel.ok()) return Greet(*std::move(channel));
  if (absl::IsPermissionDenied(channel.status())) Lose(channel.status());
}

void WorkerLink::Spawn() {
  std::error_code error;
  std::filesystem::create_directories(paths_.folder, error);
  if (error) {
    return Lose(absl::UnavailableError(
        absl::StrCat("cannot create ", paths_.folder, ": ", error.message())));
  }
  absl::StatusOr<Process> process =
      Process::Spawn(WorkerArguments(options_, device_), paths_.log,
                     {kWaitPolicy, kSpinCount});
  if (!process.ok()) return Lose(process.status());
  process_ = *std::move(process);
  found_alive_ = false;
  ++spawns_;
  SetState(State::kStarting);
  spdlog::info("worker spawned device={} pid={} restarts={}", device_.name,
               process_->pid(), spawns_ - 1);
}

void WorkerLink::Greet(ControlChannel channel) {
  // The socket may belong to a worker that an earlier daemon started. Such a
  // worker goes on with its jobs.
  if (!process_.has_value() || process_->pid() != channel.peer_pid()) {
    absl::StatusOr<Process> process = Process::Watch(channel.peer_pid());
    if (!process.ok()) return;  // it has just ended
    process_ = *std::move(process);
    found_alive_ = true;
    spdlog::info("worker found alive device={} pid={}", device_.name,
                 process_->pid());
  }
  channel_ = std::move(channel);
  SetState(State::kGreeting);
  ToWorker message;
  message.set_request_id(next_request_id_++);
  worker::v1::Hello* hello = message.mutable_hello();
  hello->set_protocol_version(kWorkerProtocolVersion);
  hello->set_daemon_boot_id(options_.daemon_boot_id);
  // The worker sends all reports after this one again.
  hello->set_last_report_sequence(acknowledged_);
  // A worker that plans or rehearses serves no requests and needs no ring.
  if (device_.name == kMetaDevice || device_.name == kRehearsalWorker) {
    if (absl::Status sent = SendNow(message); !sent.ok()) Lose(sent);
    return;
  }
  auto ring = SlotRingClient::Create(options_.ring);
  if (!ring.ok()) return Lose(ring.status());
  {
    absl::MutexLock lock(&mutex_);
    ring_ = *ring;
  }
  hello->set_has_ring(true);
  const std::array<int, 3> descriptors = (*ring)->descriptors();
  absl::Status sent = SendNow(message, descriptors);
  if (!sent.ok()) Lose(sent);
}

absl::Status WorkerLink::CheckHello(const FromWorker& message) const {
  RETURN_IF_ERROR(ReplyStatus(message));
  RETURN_IF_ERROR(CheckWorkerHello(message.hello(), device_));
  return found_alive_ ? CheckWorkerSettings(message.hello(), device_)
                      : absl::OkStatus();
}

void WorkerLink::TakeWorkPage() {
  work_.reset();
  std::vector<UniqueFd> descriptors = channel_->TakeDescriptors();
  // A worker without a page is used all the same. Its hangs are then not seen.
  if (descriptors.size() != 1) return;
  absl::StatusOr<WorkPage> page = WorkPage::Attach(std::move(descriptors[0]));
  if (page.ok()) {
    work_ = *std::move(page);
  } else {
    spdlog::warn("worker has no work page device={} error=\"{}\"", device_.name,
                 page.status().ToString());
  }
}

void WorkerLink::BecomeReady(const worker::v1::HelloReply& reply) {
  ready_since_ = Clock::now();
  TakeWorkPage();
  SetState(State::kReady);
  {
    absl::MutexLock lock(&mutex_);
    status_.boot_id = reply.worker_boot_id();
  }
  spdlog::info("worker ready device={} pid={} boot_id={} running={} loaded={}",
               device_.name, process_->pid(), reply.worker_boot_id(),
               reply.running_size(), reply.loaded_version_ids_size());
  observer_->OnWorkerReady(device_.name, reply);
  if (draining_) Drain();
}

// ------------------------------------------------------------------ incoming

void WorkerLink::AddPollFds(std::vector<pollfd>* fds) const {
  if (channel_.has_value()) {
    const int events = POLLIN | (channel_->wants_write() ? POLLOUT : 0);
    fds->push_back({channel_->fd(), static_cast<short>(events), 0});
  }
  if (process_.has_value()) fds->push_back({process_->fd(), POLLIN, 0});
}

void WorkerLink::HandleReady() {
  // The connection first, so that messages from before the end count.
  if (channel_.has_value()) {
    if (absl::Status sent = channel_->Flush(); !sent.ok()) {
      spdlog::debug("worker device={} flush: {}", device_.name,
                    sent.ToString());
    }
    Receive();
  }
  if (more_to_read_ || !process_.has_value()) return;
  const std::optional<std::string> end = process_->HowItEnded();
  if (!end.has_value()) return;
  const pid_t pid = process_->pid();
  // The loss was reported when the connection ended. Only the process was still
  // there.
  if (state_ == State::kBackingOff || state_ == State::kQuarantined ||
      state_ == State::kStopped) {
    process_.reset();
    SetState(state_);
    return;
  }
  Lose(absl::UnavailableError(
      absl::StrCat("the worker, process ", pid, ", has ended: ", *end)));
}

void WorkerLink::Receive() {
  FromWorker message;
  more_to_read_ = false;
  for (int i = 0; channel_.has_value(); ++i) {
    // The rest is read in the next turn, which deadline() makes begin at once.
    if (i == kMessagesPerTurn) {
      more_to_read_ = true;
      return;
    }
    const absl::StatusOr<bool> whole = channel_->Receive(&message);
    if (!whole.ok()) {
      // A closed connection means that the worker has ended. Any other error is
      // a message of wrong form, and such a worker is not trusted any more.
      return absl::IsUnavailable(whole.status()) ? Lose(whole.status())
                                                 : KillAndLose(whole.status());
    }
    if (!*whole) return;
    last_heard_ = Clock::now();
    Handle(message);
  }
}

void WorkerLink::Handle(const FromWorker& message) {
  if (state_ == State::kGreeting) {
    if (!message.has_hello() && message.code() == 0) return;
    const absl::Status checked = CheckHello(message);
    return checked.ok() ? BecomeReady(message.hello()) : KillAndLose(checked);
  }
  if (message.has_heartbeat()) {
    observer_->OnHeartbeat(device_.name, message.heartbeat());
  } else if (message.has_report()) {
    // After a new connection the worker repeats the reports that were not
    // acknowledged.
    if (message.report().sequence() <= forwarded_) return;
    forwarded_ = message.report().sequence();
    observer_->OnReport(device_.name, message.report());
  } else {
    HandleReply(message);
  }
}

void WorkerLink::HandleReply(const FromWorker& message) {
  auto node = pending_.extract(message.request_id());
  if (node.empty()) return;  // it has timed out
  if (const absl::Status status = ReplyStatus(message); !status.ok()) {
    return node.mapped().callback(status);
  }
  node.mapped().callback(message);
}

// ----------------------------------------------------------------- deadlines

WorkerLink::Clock::time_point WorkerLink::deadline() const {
  // Some messages were left unread, so the next turn begins at once.
  if (more_to_read_) return Clock::time_point::min();
  Clock::time_point earliest = Clock::time_point::max();
  for (const auto& [id, pending] : pending_) {
    earliest = std::min(earliest, pending.deadline);
  }
  switch (state_) {
    case State::kStarting:
      return std::min({earliest, next_try_, start_deadline_});
    case State::kGreeting:
      return std::min(earliest, start_deadline_);
    case State::kReady:
      return std::min(earliest,
                      last_heard_ + Nanoseconds(options_.heartbeat_timeout));
    case State::kBackingOff:
      return std::min(earliest, next_try_);
    case State::kQuarantined:
    case State::kStopped:
      break;
  }
  return earliest;
}

void WorkerLink::HandleTime(Clock::time_point now) {
  ExpireRequests(now);
  if (state_ == State::kBackingOff && now >= next_try_) return Start();
  if (state_ == State::kStarting && now >= next_try_) {
    next_try_ = now + kConnectInterval;
    TryConnect();
  }
  if ((state_ == State::kStarting || state_ == State::kGreeting) &&
      now >= start_deadline_) {
    return KillAndLose(absl::UnavailableError(absl::StrCat(
        "the worker did not answer within ",
        absl::FormatDuration(options_.start_timeout), " of its start")));
  }
  if (state_ == State::kReady) CheckHealth(now);
}

void WorkerLink::CheckHealth(Clock::time_point now) {
  // Any message counts as a sign of life, not heartbeats only.
  if (now >= last_heard_ + Nanoseconds(options_.heartbeat_timeout)) {
    return KillAndLose(absl::UnavailableError(
        absl::StrCat(kNoHeartbeat, " for ",
                     absl::FormatDuration(options_.heartbeat_timeout))));
  }
  if (const std::optional<std::string> hang = FindHang()) {
    return KillAndLose(absl::DeadlineExceededError(*hang));
  }
  if (HasOutlivedAFault(now)) {
    return KillAndLose(
        absl::UnavailableError("the worker does not end after a fault"));
  }
  if (const auto ring = this->ring(); ring != nullptr && ring->failed()) {
    KillAndLose(absl::InternalError("the worker has corrupted its slot ring"));
  }
}

// Returns true when the worker did not end after a fault: a kernel may never
// come back from a lost device.
bool WorkerLink::HasOutlivedAFault(Clock::time_point now) {
  if (!work_.has_value() || work_->Read().fault == 0) return false;
  // The grace begins when the daemon first sees the fault.
  if (!fault_seen_.has_value()) fault_seen_ = now;
  return now >= *fault_seen_ + kFaultGrace;
}

std::optional<std::string> WorkerLink::FindHang() const {
  if (!work_.has_value() || options_.hang_timeout <= absl::ZeroDuration()) {
    return std::nullopt;
  }
  const WorkReading work = work_->Read();
  if (!work.busy) return std::nullopt;
  // The order matters: the clock is read last, so that a request is never taken
  // for younger than the work that it asked for.
  if (device_.name == kMetaDevice && !IsAwaited(Clock::now() - work.age)) {
    return absl::StrCat("the planner is killed: nobody waits any longer for ",
                        "what it does, which has taken ",
                        absl::FormatDuration(absl::FromChrono(work.age)));
  }
  return HangText(work, options_.hang_timeout);
}

bool WorkerLink::IsAwaited(Clock::time_point begun) const {
  return std::any_of(pending_.begin(), pending_.end(), [&](const auto& entry) {
    return entry.second.sent <= begun;
  });
}

void WorkerLink::ExpireRequests(Clock::time_point now) {
  std::vector<Pending> expired;
  for (auto it = pending_.begin(); it != pending_.end();) {
    if (it->second.deadline > now) {
      ++it;
      continue;
    }
    // The callbacks run after the loop, because a callback may send a request,
    // which changes `pending_`.
    expired.push_back(std::move(it->second));
    it = pending_.erase(it);
  }
  for (const Pending& request : expired) {
    request.callback(absl::DeadlineExceededError(
        LateText(WorkerTitle(device_.name),
                 absl::FromChrono(request.deadline - request.sent))));
  }
}

// ---------------------------------------------------------------- sending

absl::Status WorkerLink::SendNow(const ToWorker& message,
                                 absl::Span<const int> descriptors) {
  return channel_->Send(message, descriptors);
}

void WorkerLink::Send(ToWorker message, absl::Duration timeout,
                      ReplyCallback callback) {
  if (state_ != State::kReady) {
    return callback(absl::UnavailableError(absl::StrCat(
        WorkerTitle(device_.name), " is starting; try again in a moment")));
  }
  if (pending_.size() >= kMaxPendingRequests) {
    return callback(absl::ResourceExhaustedError(absl::StrCat(
        pending_.size(), " requests wait for ", WorkerTitle(device_.name),
        ", limit ", kMaxPendingRequests)));
  }
  const Clock::time_point now = Clock::now();
  std::string digest;
  if (device_.name == kMetaDevice) {
    digest = DigestOfRequest(message);
    if (absl::Status known = killers_.Check(digest, now); !known.ok()) {
      return callback(std::move(known));
    }
  }
  const uint64_t id = next_request_id_++;
  message.set_request_id(id);
  // The time before the worker can begin with it; see FindHang.
  const Clock::time_point sent_at = Clock::now();
  if (absl::Status sent = SendNow(message); !sent.ok()) {
    return callback(std::move(sent));
  }
  pending_[id] = {sent_at, sent_at + Nanoseconds(timeout), std::move(callback),
                  std::move(digest)};
}

void WorkerLink::Post(const ToWorker& message) {
  if (state_ != State::kReady) return;
  if (absl::Status sent = SendNow(message); !sent.ok()) {
    spdlog::warn("message to worker dropped device={} error=\"{}\"",
                 device_.name, sent.ToString());
  }
}

void WorkerLink::AcknowledgeReports(uint64_t through_sequence) {
  if (through_sequence <= acknowledged_) return;
  acknowledged_ = through_sequence;
  ToWorker message;
  message.mutable_acknowledge_reports()->set_through_sequence(acknowledged_);
  Post(message);
}

// ------------------------------------------------------------------- ending

void WorkerLink::Drain() {
  draining_ = true;
  if (state_ == State::kBackingOff || state_ == State::kQuarantined) {
    return SetState(State::kStopped);
  }
  ToWorker message;
  message.mutable_shutdown();
  Post(message);  // if it is not ready yet, BecomeReady calls Drain again
}

void WorkerLink::Detach() {
  DropConnection(absl::UnavailableError("the server is stopping"));
  process_.reset();
  SetState(State::kStopped);
}

void WorkerLink::Kill() {
  if (process_.has_value()) {
    process_->Kill();
    process_->HowItEnded(/*wait_milliseconds=*/1000);
  }
  Detach();
}

void WorkerLink::DropConnection(const absl::Status& reason) {
  channel_.reset();
  more_to_read_ = false;
  std::shared_ptr<SlotRingClient> ring;
  {
    absl::MutexLock lock(&mutex_);
    ring.swap(ring_);
  }
  // FailAll is called without the lock, because the callbacks may ask for the
  // ring again.
  if (ring != nullptr) ring->FailAll(reason);
  for (auto& [id, pending] : std::exchange(pending_, {})) {
    pending.callback(reason);
  }
}

void WorkerLink::KillAndLose(const absl::Status& reason) {
  if (process_.has_value()) process_->Kill();
  Lose(reason, /*killed=*/true);
}

absl::Status WorkerLink::AnswerAfter(const WorkerEnd& end) {
  const std::string title = WorkerTitle(device_.name);
  // The planner works for its requests only.
  if (device_.name == kMetaDevice && pending_.size() == 1 &&
      WasEndedByRequest(end, Clock::now() - pending_.begin()->second.sent)) {
    killers_.Add(pending_.begin()->second.digest, Clock::now());
    return absl::InvalidArgumentError(absl::StrCat(
        "reading or planning it ends ", title, " (", end.how, ")"));
  }
  return absl::UnavailableError(
      absl::StrCat(title, " ended during the request"));
}

void WorkerLink::Lose(const absl::Status& reason, bool killed) {
  const bool asked_to_end = draining_;
  // The page is read before the connection and the process are given up.
  WorkerEnd end{reason, "", work_.has_value() ? work_->Read() : WorkReading()};
  std::string text(reason.message());
  if (process_.has_value()) {
    if (const auto how = process_->HowItEnded(ReapMilliseconds(device_.name))) {
      absl::StrAppend(&text, " (process ", process_->pid(), ": ", *how,
                      killed ? kByServer : "", ")");
      end.how = *how;
      process_.reset();
    }
  }
  // A worker that ran long enough starts again with the shortest delay. One
  // that ends soon after each start waits longer each time.
  const bool was_stable =
      state_ == State::kReady &&
      Clock::now() - ready_since_ >= Nanoseconds(options_.stable_after);
  DropConnection(AnswerAfter(end));
  if (asked_to_end) {
    spdlog::info("worker ended device={} detail=\"{}\"", device_.name, text);
    return SetState(State::kStopped);
  }
  const WorkReading& work = end.work;
  const WorkOwner suspect = SuspectOf(end);
  work_.reset();
  fault_seen_.reset();
  if (work.fault != 0) absl::StrAppend(&text, ": ", work.fault_text);
  // A new worker would meet the same broken device, so none is started.
  if (work.fault == kExitDeviceSuspect) return Quarantine(text, suspect);
  if (was_stable) backoff_ = options_.backoff_min;
  if (work.fault != 0) return BackOff(absl::AbortedError(text), suspect);
  BackOff(absl::IsDeadlineExceeded(reason) ? absl::DeadlineExceededError(text)
                                           : absl::UnavailableError(text),
          suspect);
}

void WorkerLink::BackOff(const absl::Status& reason, const WorkOwner& work) {
  next_try_ = Clock::now() + Nanoseconds(backoff_);
  spdlog::warn("worker lost device={} reason=\"{}\" retry_in={}", device_.name,
               std::string(reason.message()), absl::FormatDuration(backoff_));
  backoff_ = std::min(2 * backoff_, options_.backoff_max);
  SetState(State::kBackingOff);
  observer_->OnWorkerLost(device_.name, reason, work);
}

void WorkerLink::Quarantine(const std::string& text, const WorkOwner& work) {
  spdlog::error(
      "device in quarantine until the server is started again device={} "
      "reason=\"{}\"",
      device_.name, text);
  SetState(State::kQuarantined);
  observer_->OnWorkerLost(device_.name, absl::DataLossError(text), work);
}

// --------------------------------------------------------------- any thread

std::shared_ptr<SlotRingClient> WorkerLink::ring() const {
  absl::MutexLock lock(&mutex_);
  return status_.state == WorkerStatus::State::kReady ? ring_ : nullptr;
}

WorkerStatus WorkerLink::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

}  // namespace gpupool::server
