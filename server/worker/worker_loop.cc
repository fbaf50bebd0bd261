#include "server/worker/worker_loop.h"

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/ipc/worker_paths.h"
#include "server/worker/rehearsal/rehearsal.h"
#include "server/worker/rehearsal/training_rehearsal.h"
#include "spdlog/spdlog.h"

namespace gpupool::server {
namespace {

using worker::v1::FromWorker;
using worker::v1::Report;
using worker::v1::ToWorker;

constexpr uint32_t kProtocolVersion = 1;
constexpr std::chrono::milliseconds kMaxPoll{200};
constexpr std::chrono::seconds kUtilizationWindow{1};
constexpr std::chrono::seconds kFlushLimit{2};

FromWorker MakeReply(uint64_t request_id, absl::StatusOr<FromWorker> result) {
  FromWorker reply;
  if (result.ok()) {
    reply = *std::move(result);
  } else {
    reply.set_code(static_cast<int32_t>(result.status().code()));
    reply.set_error(std::string(result.status().message()));
    // A name in a file may be no text, but protobuf takes nothing else.
    if (!FromWorker().ParseFromString(reply.SerializeAsString())) {
      reply.set_error(absl::CHexEscape(result.status().message()));
    }
  }
  reply.set_request_id(request_id);
  return reply;
}

}  // namespace

WorkerLoop::WorkerLoop(WorkerLoopOptions options, Engine* engine,
                       ControlListener listener, ReportSpool spool)
    : options_(std::move(options)),
      engine_(engine),
      listener_(std::move(listener)),
      spool_(std::move(spool)),
      turnstile_(
          engine, [this](Report report) { outbox_.Push(std::move(report)); },
          absl::ToChronoNanoseconds(options_.checkpoint_interval)),
      bench_run_(engine, &turnstile_),
      model_profile_run_(&turnstile_),
      monitor_(engine, options_.readings_interval) {}

WorkerLoop::~WorkerLoop() = default;

void WorkerLoop::Run() {
  compute_thread_ = std::thread([this] {
    ::prctl(PR_SET_NAME, "compute");
    turnstile_.Run();
    // The outbox closes last, since both threads put replies into it.
    side_thread_.Stop();
    outbox_.Close();
  });
  wanted_at_ = next_heartbeat_ = Clock::now();
  while (!outbox_.finished()) PollOnce();
  compute_thread_.join();
  FlushBeforeExit();
}

void WorkerLoop::PollOnce() {
  const auto events = [](const std::optional<ControlChannel>& channel) {
    return static_cast<short>(channel.has_value() && channel->wants_write()
                                  ? POLLIN | POLLOUT
                                  : POLLIN);
  };
  std::array<pollfd, 5> fds = {{
      {outbox_.fd(), POLLIN, 0},
      {listener_.fd(), POLLIN, 0},
      // poll() skips negative descriptors. A stop signal that was taken would
      // wake it again and again.
      {draining_ ? -1 : options_.stop_fd, POLLIN, 0},
      {channel_ ? channel_->fd() : -1, events(channel_), 0},
      {candidate_ ? candidate_->fd() : -1, events(candidate_), 0},
  }};
  const auto wait = std::clamp<Clock::duration>(
      next_heartbeat_ - Clock::now(), Clock::duration::zero(), kMaxPoll);
  const timespec limit = absl::ToTimespec(absl::FromChrono(wait));
  ::ppoll(fds.data(), fds.size(), &limit, nullptr);
  HandleOutbox();
  if (fds[2].revents != 0) BeginDrain("stop signal");
  ReceiveFrom(&channel_);
  ReceiveFrom(&candidate_);
  Accept();
  const Clock::time_point now = Clock::now();
  if (now >= next_heartbeat_) {
    SendHeartbeat(now);
    // Wake the compute thread, since a fault in the monitor's readings does
    // not.
    if (engine_->exit_code() != 0) turnstile_.Post([] {});
  }
  CheckOrphan(now);
}

// ------------------------------------------------------------- connections

// Takes new connections. Each waits as the candidate until its Hello, so that a
// mere connection does not replace the daemon.
void WorkerLoop::Accept() {
  while (true) {
    absl::StatusOr<ControlChannel> channel = listener_.Accept();
    if (absl::IsNotFound(channel.status())) return;
    if (!channel.ok()) {
      spdlog::warn("connection refused error=\"{}\"",
                   channel.status().ToString());
      continue;
    }
    // A newer connection replaces a candidate that has not said Hello.
    candidate_ = *std::move(channel);
  }
}

void WorkerLoop::ReceiveFrom(std::optional<ControlChannel>* channel) {
  ToWorker request;
  while (channel->has_value()) {
    if (absl::Status sent = (*channel)->Flush(); !sent.ok()) {
      spdlog::info("connection does not take more: {}", sent.ToString());
    }
    const absl::StatusOr<bool> whole = (*channel)->Receive(&request);
    if (!whole.ok()) {
      spdlog::info("connection ends reason=\"{}\"", whole.status().ToString());
      channel->reset();
      return;
    }
    if (!*whole) return;
    if (channel == &channel_) {
      Handle(std::move(request));
    } else if (request.has_hello()) {
      HandleHello(request);  // moves candidate_ to channel_
    } else {
      spdlog::warn("connection refused: its first message is no Hello");
      channel->reset();
    }
  }
}

void WorkerLoop::Disconnect(const absl::Status& reason) {
  spdlog::warn("connection dropped reason=\"{}\"", reason.ToString());
  channel_.reset();
}

absl::StatusOr<std::unique_ptr<SlotRingServer>> WorkerLoop::TakeRing(
    const worker::v1::Hello& hello) {
  std::vector<UniqueFd> fds = candidate_->TakeDescriptors();
  if (!hello.has_ring()) return nullptr;
  // A ring has one memory and two bells, one for each direction.
  if (fds.size() != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a Hello with a ring brings 3 descriptors; ", fds.size(), " came"));
  }
  return SlotRingServer::Attach(std::move(fds[0]), std::move(fds[1]),
                                std::move(fds[2]));
}

void WorkerLoop::HandleHello(const ToWorker& request) {
  const worker::v1::Hello& hello = request.hello();
  absl::StatusOr<std::unique_ptr<SlotRingServer>> ring = TakeRing(hello);
  if (ring.ok() && hello.protocol_version() != kProtocolVersion) {
    ring = absl::FailedPreconditionError(
        absl::StrCat("this worker speaks protocol version ", kProtocolVersion,
                     ", the server ", hello.protocol_version()));
  }
  if (!ring.ok()) {
    spdlog::warn("Hello refused error=\"{}\"", ring.status().ToString());
    // Sent before the close, if the socket takes it at once.
    absl::Status sent =
        candidate_->Send(MakeReply(request.request_id(), ring.status()));
    candidate_.reset();
    return;
  }
  // Before the reply, which lists attempts by the reports that are left.
  spool_.Acknowledge(hello.last_report_sequence());
  const FromWorker reply = HelloReply();
  channel_ = std::move(candidate_);
  candidate_.reset();
  // Replies carry this number, so that answers to an earlier daemon are not
  // sent to this one.
  ++connection_;
  spdlog::info("daemon connected boot_id={} connection={}",
               hello.daemon_boot_id(), connection_);
  turnstile_.Post(
      [this, ring = std::make_shared<std::unique_ptr<SlotRingServer>>(
                 *std::move(ring))] { turnstile_.SetRing(std::move(*ring)); });
  const int page = options_.work_fd;
  Send(MakeReply(request.request_id(), reply),
       page < 0 ? absl::Span<const int>() : absl::MakeConstSpan(&page, 1));
  ResendReports();
  next_heartbeat_ = Clock::now();
}

// Lists attempts whose ends the daemon has not heard of: for the daemon they
// still run. Their reports follow at once.
void WorkerLoop::AddEndedAttempts(worker::v1::HelloReply* reply) const {
  for (const Report& report : spool_.reports()) {
    if (!report.has_ended()) continue;
    const bool listed =
        std::any_of(reply->running().begin(), reply->running().end(),
                    [&](const worker::v1::RunningAttempt& attempt) {
                      return attempt.job_id() == report.job_id() &&
                             attempt.attempt() == report.attempt();
                    });
    if (listed) continue;
    worker::v1::RunningAttempt* attempt = reply->add_running();
    attempt->set_job_id(report.job_id());
    attempt->set_attempt(report.attempt());
    attempt->set_left(true);
  }
}

FromWorker WorkerLoop::HelloReply() {
  FromWorker message;
  worker::v1::HelloReply* reply = message.mutable_hello();
  reply->set_protocol_version(kProtocolVersion);
  reply->set_device(options_.device);
  reply->set_worker_boot_id(options_.boot_id);
  reply->set_pid(static_cast<uint32_t>(::getpid()));
  *reply->mutable_info() = engine_->info();
  reply->mutable_info()->set_worker_pid(reply->pid());
  reply->set_joins_groups(options_.joins_groups);
  const TurnstileView view = turnstile_.view();
  reply->mutable_running()->Add(view.running.begin(), view.running.end());
  for (worker::v1::RunningAttempt saving : view.saving) {
    saving.set_left(true);
    *reply->add_running() = std::move(saving);
  }
  // After the view was taken: an attempt puts its end into the outbox before it
  // leaves the view, so that one of the two has it.
  HandleOutbox();
  AddEndedAttempts(reply);
  reply->mutable_loaded_version_ids()->Add(view.loaded_version_ids.begin(),
                                           view.loaded_version_ids.end());
  return message;
}

// ----------------------------------------------------------------- requests

void WorkerLoop::Handle(ToWorker request) {
  // Long work that does not need the compute thread.
  if (request.has_inspect_dataset() || request.has_dump_memory()) {
    return HandleOnSideThread(std::move(request));
  }
  if (request.has_profile_job()) return HandleProfile(std::move(request));
  if (request.has_bench_device()) return HandleBench(std::move(request));
  if (request.has_profile_model()) {
    return HandleModelProfile(std::move(request));
  }
  if (!HandleNow(request)) HandleOnComputeThread(std::move(request));
}

bool WorkerLoop::HandleNow(const ToWorker& request) {
  absl::StatusOr<FromWorker> reply = FromWorker();
  switch (request.message_case()) {
    case ToWorker::kAcknowledgeReports:
      spool_.Acknowledge(request.acknowledge_reports().through_sequence());
      break;
    case ToWorker::kShutdown:
      BeginDrain("the server asks");
      break;
    default: {
      std::optional<absl::StatusOr<FromWorker>> answer =
          engine_->AnswerVerb(request);
      if (!answer.has_value()) return false;
      reply = *std::move(answer);
    }
  }
  if (request.request_id() != 0) {
    Send(MakeReply(request.request_id(), std::move(reply)));
  }
  return true;
}

void WorkerLoop::HandleOnComputeThread(ToWorker request) {
  if (request.has_start_job()) {
    // The attempt is in heartbeats from now on. The compute thread may take it
    // up much later.
    turnstile_.Announce(request.start_job().job_id(),
                        request.start_job().attempt());
  }
  // The compute thread may wait for a rank that is gone.
  if (request.has_stop_job() &&
      request.stop_job().reason() != worker::v1::StopJob::DRAIN) {
    turnstile_.AbortGroup(request.stop_job().job_id(),
                          request.stop_job().attempt());
  }
  turnstile_.Post(
      [this, connection = connection_, request = std::move(request)]() mutable {
        const uint64_t id = request.request_id();
        FromWorker reply = MakeReply(id, Compute(&request));
        if (id != 0) outbox_.Push(Reply{connection, std::move(reply)});
      });
}

void WorkerLoop::HandleProfile(ToWorker request) {
  turnstile_.Post(
      [this, connection = connection_, request = std::move(request)] {
        turnstile_.ProfileJob(
            request.profile_job(),
            [this, connection, id = request.request_id()](
                absl::StatusOr<worker::v1::ProfileReply> profile) {
              absl::StatusOr<FromWorker> reply = FromWorker();
              if (profile.ok()) {
                *reply->mutable_profile_job() = *std::move(profile);
              } else {
                reply = profile.status();
              }
              outbox_.Push(Reply{connection, MakeReply(id, std::move(reply))});
            });
      });
}

void WorkerLoop::HandleBench(ToWorker request) {
  bench_run_.Start(
      request.bench_device().force(),
      [this, connection = connection_,
       id = request.request_id()](absl::StatusOr<v1::DeviceBench> bench) {
        absl::StatusOr<FromWorker> reply = FromWorker();
        if (bench.ok()) {
          *reply->mutable_bench_device() = *std::move(bench);
        } else {
          reply = bench.status();
        }
        outbox_.Push(Reply{connection, MakeReply(id, std::move(reply))});
      });
}

void WorkerLoop::HandleModelProfile(ToWorker request) {
  model_profile_run_.Start(
      request.profile_model(),
      [this, connection = connection_, id = request.request_id()](
          absl::StatusOr<worker::v1::ProfileReply> profile) {
        absl::StatusOr<FromWorker> reply = FromWorker();
        if (profile.ok()) {
          *reply->mutable_profile_job() = *std::move(profile);
        } else {
          reply = profile.status();
        }
        outbox_.Push(Reply{connection, MakeReply(id, std::move(reply))});
      });
}

void WorkerLoop::HandleOnSideThread(ToWorker request) {
  side_thread_.Post(
      [this, connection = connection_, request = std::move(request)] {
        outbox_.Push(Reply{
            connection, MakeReply(request.request_id(), WorkAside(request))});
      });
}

absl::StatusOr<FromWorker> WorkerLoop::WorkAside(const ToWorker& request) {
  if (auto answer = engine_->AnswerVerb(request); answer.has_value()) {
    return *std::move(answer);
  }
  FromWorker reply;
  ASSIGN_OR_RETURN(*reply.mutable_dataset(),
                   engine_->InspectDataset(request.inspect_dataset()));
  return reply;
}

// Answers a request on the compute thread.
absl::StatusOr<FromWorker> WorkerLoop::Compute(ToWorker* request) {
  FromWorker reply;
  switch (request->message_case()) {
    case ToWorker::kPlanTraining: {
      const worker::v1::PlanTraining& plan = request->plan_training();
      ASSIGN_OR_RETURN(*reply.mutable_plan(),
                       plan.make_step() ? RehearseTraining(*engine_, plan)
                                        : engine_->PlanTraining(plan));
      return reply;
    }
    case ToWorker::kPlanInference: {
      ASSIGN_OR_RETURN(*reply.mutable_plan(),
                       engine_->PlanInference(request->plan_inference()));
      return reply;
    }
    case ToWorker::kImportModel: {
      ASSIGN_OR_RETURN(*reply.mutable_import_model(),
                       engine_->ImportModel(request->import_model()));
      return reply;
    }
    case ToWorker::kExportModel: {
      ASSIGN_OR_RETURN(*reply.mutable_export_model(),
                       engine_->ExportModel(request->export_model()));
      return reply;
    }
    case ToWorker::kLoadVersion: {
      ASSIGN_OR_RETURN(*reply.mutable_version(),
                       options_.device == kRehearsalWorker
                           ? Rehearse(*engine_, request->load_version())
                           : turnstile_.models().Load(request->load_version()));
      return reply;
    }
    case ToWorker::kUnloadVersion: {
      const uint64_t id = request->unload_version().version_id();
      RETURN_IF_ERROR(turnstile_.models().Unload(id));
      reply.mutable_version()->set_version_id(id);
      return reply;
    }
    case ToWorker::kStartJob:
      RETURN_IF_ERROR(
          turnstile_.StartJob(std::move(*request->mutable_start_job())));
      return reply;
    case ToWorker::kStopJob:
      RETURN_IF_ERROR(turnstile_.StopJob(request->stop_job()));
      return reply;
    default:
      return absl::UnimplementedError(absl::StrCat(
          "this worker does not know message ", request->message_case()));
  }
}

// ---------------------------------------------------------------- outgoing

// Spools each report before it is sent. Replies to an older connection are
// dropped.
void WorkerLoop::HandleOutbox() {
  for (Outbox::Item& item : outbox_.TakeAll()) {
    if (Reply* reply = std::get_if<Reply>(&item)) {
      if (reply->connection == connection_) Send(reply->message);
      continue;
    }
    Report& report = std::get<Report>(item);
    if (absl::Status kept = spool_.Add(&report); !kept.ok()) {
      spdlog::error("report not on disk error=\"{}\"", kept.ToString());
    }
    FromWorker message;
    *message.mutable_report() = std::move(report);
    Send(message);
  }
}

void WorkerLoop::ResendReports() {
  FromWorker message;
  for (const Report& report : spool_.reports()) {
    if (!channel_.has_value()) return;
    *message.mutable_report() = report;
    Send(message);
  }
}

// Sends the message. A daemon that does not read loses its connection; the
// spool keeps the reports for its next Hello.
void WorkerLoop::Send(const FromWorker& message,
                      absl::Span<const int> descriptors) {
  if (!channel_.has_value()) return;
  absl::Status sent = channel_->Send(message, descriptors);
  // The message is too large for a frame. The daemon gets an error instead of
  // waiting in vain.
  if (absl::IsInvalidArgument(sent)) {
    spdlog::error("message is not sent error=\"{}\"", sent.ToString());
    sent = channel_->Send(MakeReply(
        message.request_id(), absl::ResourceExhaustedError(sent.message())));
  }
  if (!sent.ok()) Disconnect(sent);
}

void WorkerLoop::SendHeartbeat(Clock::time_point now) {
  next_heartbeat_ =
      now + absl::ToChronoNanoseconds(options_.heartbeat_interval);
  const TurnstileView view = turnstile_.view();
  const double utilization = Utilization(now, view.busy_time);
  // A worker without work and without a daemon ends after a while; see
  // CheckOrphan.
  if (!view.running.empty() || !view.saving.empty() || channel_.has_value()) {
    wanted_at_ = now;
  }
  if (!channel_.has_value()) return;
  FromWorker message;
  worker::v1::Heartbeat* heartbeat = message.mutable_heartbeat();
  *heartbeat->mutable_memory() = engine_->memory_stats();
  heartbeat->set_utilization(utilization);
  if (auto readings = monitor_.Take(); readings.has_value()) {
    *heartbeat->mutable_readings() = *std::move(readings);
  }
  heartbeat->mutable_running()->Add(view.running.begin(), view.running.end());
  heartbeat->set_step_count(view.step_count);
  heartbeat->set_step_seconds_total(view.step_seconds_total);
  Send(message);
}

// Returns the busy share of about the last second.
double WorkerLoop::Utilization(Clock::time_point now,
                               std::chrono::nanoseconds busy_time) {
  while (busy_.size() > 1 && now - busy_[1].first >= kUtilizationWindow) {
    busy_.pop_front();
  }
  double share = 0;
  if (!busy_.empty() && now > busy_.front().first) {
    const std::chrono::duration<double> busy = busy_time - busy_.front().second;
    const std::chrono::duration<double> all = now - busy_.front().first;
    share = std::clamp(busy / all, 0.0, 1.0);
  }
  busy_.emplace_back(now, busy_time);
  return share;
}

// -------------------------------------------------------------------- ending

void WorkerLoop::CheckOrphan(Clock::time_point now) {
  if (!draining_ &&
      now - wanted_at_ >= absl::ToChronoNanoseconds(options_.orphan_timeout)) {
    BeginDrain("no daemon and nothing to train");
  }
}

void WorkerLoop::BeginDrain(const char* reason) {
  if (draining_) return;
  spdlog::info("worker ends reason=\"{}\"", reason);
  draining_ = true;
  turnstile_.Drain();
}

// Sends what is left for at most kFlushLimit. Reports are in the spool in any
// case.
void WorkerLoop::FlushBeforeExit() {
  const Clock::time_point limit = Clock::now() + kFlushLimit;
  while (channel_.has_value() && channel_->wants_write() &&
         Clock::now() < limit) {
    pollfd writable = {channel_->fd(), POLLOUT, 0};
    ::poll(&writable, 1, 100);
    if (!channel_->Flush().ok()) return;
  }
}

}  // namespace gpupool::server
