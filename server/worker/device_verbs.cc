#include "server/worker/device_verbs.h"

#include <cstdint>

#include "engine/base/status_macros.h"
#include "engine/session.h"
#include "gpupool/worker/v1/worker.pb.h"

namespace gpupool::server {
namespace {

using worker::v1::FromWorker;
using worker::v1::ToWorker;

constexpr uint64_t kHistoryEntries = 100'000;

using Answer = absl::StatusOr<FromWorker> (*)(engine::Session& session,
                                              const ToWorker& request);

struct Verb {
  ToWorker::MessageCase request;
  Answer answer;
};

FromWorker StatsNow(const engine::Session& session) {
  FromWorker reply;
  *reply.mutable_memory()->mutable_stats() = session.memory_stats();
  return reply;
}

absl::StatusOr<FromWorker> GetMemory(engine::Session& session,
                                     const ToWorker& request) {
  FromWorker reply;
  worker::v1::MemoryReply& memory = *reply.mutable_memory();
  *memory.mutable_stats() = session.AllMemoryStats();
  if (request.get_memory().with_snapshot()) {
    *memory.mutable_snapshot() =
        session.Snapshot(request.get_memory().with_timeline());
  }
  if (request.get_memory().with_summary()) {
    memory.set_summary(session.MemorySummary());
  }
  return reply;
}

absl::StatusOr<FromWorker> EmptyCache(engine::Session& session,
                                      const ToWorker&) {
  FromWorker reply;
  reply.mutable_empty_cache()->set_freed_bytes(session.EmptyCache());
  return reply;
}

absl::StatusOr<FromWorker> ResetPeak(engine::Session& session,
                                     const ToWorker&) {
  session.ResetPeak();
  return StatsNow(session);
}

absl::StatusOr<FromWorker> SetMemoryFraction(engine::Session& session,
                                             const ToWorker& request) {
  RETURN_IF_ERROR(
      session.SetMemoryFraction(request.set_memory_fraction().fraction()));
  return StatsNow(session);
}

// Begins or ends the history; 0 entries mean the default number.
absl::StatusOr<FromWorker> RecordMemoryHistory(engine::Session& session,
                                               const ToWorker& request) {
  const worker::v1::RecordMemoryHistory& record =
      request.record_memory_history();
  uint64_t entries = record.max_entries();
  if (entries == 0) entries = kHistoryEntries;
  // The session ends its history at 0 entries.
  if (!record.enabled()) entries = 0;
  RETURN_IF_ERROR(session.RecordMemoryHistory(entries));
  return StatsNow(session);
}

absl::StatusOr<FromWorker> DumpMemory(engine::Session& session,
                                      const ToWorker&) {
  ASSIGN_OR_RETURN(const engine::MemoryDump dump, session.DumpMemory());
  FromWorker reply;
  reply.mutable_dump_memory()->set_sha256(dump.sha256);
  reply.mutable_dump_memory()->set_bytes(dump.bytes);
  return reply;
}

constexpr Verb kVerbs[] = {
    {ToWorker::kGetMemory, GetMemory},
    {ToWorker::kEmptyCache, EmptyCache},
    {ToWorker::kResetPeak, ResetPeak},
    {ToWorker::kSetMemoryFraction, SetMemoryFraction},
    {ToWorker::kRecordMemoryHistory, RecordMemoryHistory},
    {ToWorker::kDumpMemory, DumpMemory},
};

}  // namespace

std::optional<absl::StatusOr<FromWorker>> AnswerDeviceVerb(
    engine::Session& session, const ToWorker& request) {
  // Every other message is for the caller.
  for (const Verb& verb : kVerbs) {
    if (verb.request == request.message_case()) {
      return verb.answer(session, request);
    }
  }
  return std::nullopt;
}

}  // namespace gpupool::server
