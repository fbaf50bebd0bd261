// State that handlers of server/control share. Whoever answers clients
// holds one and passes it to the handlers: job_requests.h, admission.h,
// model_requests.h, and so on. What needs no decision is read from `store` and
// `board` at once.
//
// Thread-safety: every handler that takes a context may be called from any
// thread. What touches the ledger goes through the queue and runs on the
// control thread. Ownership: ControlLoop owns the context and what it names but
// `store`, `blobs` and `workers`.
#pragma once

#include <functional>

#include "absl/time/time.h"

namespace gpupool::server {

class BlobStore;
class DeviceBoard;
class EventStreams;
class Forecaster;
class GroupFolders;
class PlanCache;
class Store;
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
  std::function<absl::Time()> now;
  WorkerPort* workers = nullptr;  // null until ControlLoop::Start
  std::function<void()> want_sweep = [] {};
};

}  // namespace gpupool::server
