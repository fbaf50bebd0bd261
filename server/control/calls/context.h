// State that the handlers of server/control share. Callers that answer clients
// hold one and pass it to the handlers: job_requests.h, admission.h,
// model_requests.h, and so on. Requests that need no decision read `store` and
// `board` directly.
//
// Thread-safety: every handler that takes a context may be called from any
// thread. Work on the ledger goes through the queue and runs on the control
// thread. Ownership: ControlLoop owns the context and everything that it names,
// except `store`, `blobs`, `tracer` and `workers`.
#pragma once

#include <atomic>
#include <functional>

#include "absl/time/time.h"

namespace gpupool::server {

class BlobStore;
class DeviceBoard;
class EventStreams;
class Forecaster;
class GroupFolders;
class JobRehearsals;
class PlanCache;
class Rehearsals;
class SharedVersions;
class Store;
class Tracer;
class VersionWaiters;
class WorkQueue;
class WorkerPort;
struct ControlOptions;

struct ControlContext {
  const ControlOptions& options;
  const Store* store;
  BlobStore* blobs;
  WorkQueue* queue;
  DeviceBoard* board;
  EventStreams* streams;
  VersionWaiters* waiters;  // control thread only
  GroupFolders* groups;     // control thread only
  PlanCache* plans;
  Forecaster* forecaster;
  Rehearsals* rehearsals;
  const SharedVersions* shared_versions;
  JobRehearsals* job_rehearsals;    // control thread only
  std::atomic<int>* plan_searches;  // requests in AddAdvice now
  std::function<absl::Time()> now;
  WorkerPort* workers = nullptr;  // null until ControlLoop::Start
  std::function<void()> want_sweep = [] {};
  Tracer* tracer = nullptr;  // null: nothing is traced
};

}  // namespace gpupool::server
