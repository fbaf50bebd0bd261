// A job as a run of an MLflow server. Any number of commands may send the same
// job, one after the other, even if one was killed in the middle of a call:
//
//   1. A run is found by its tags gpupool.job_id and gpupool.submit_time. The
//      time tells jobs of different servers apart.
//   2. A point is sent only if its step is above the last step of its metric in
//      the run. Points are sent in the order of their steps.
//   3. Before a call is repeated, the run is read again, since the call may
//      have had its effect although it failed.
//
// Two commands that send the same job at the same time may send a point twice.
//
// Thread-safety: one thread at a time. The server is borrowed.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/mlflow/run_messages.h"
#include "client/cli/mlflow/tracking_server.h"

namespace gpupool::v1 {
class Job;
}

namespace gpupool::client {

class MlflowRun {
 public:
  // Times in which calls are repeated while MLflow is not available.
  struct Patience {
    absl::Duration open = absl::Seconds(3);
    absl::Duration send = absl::Minutes(2);
  };
  struct Owner {
    std::string experiment;
    std::string server;  // address of the gpupool server
  };

  // Finds the run of the job, or creates it and, if there is none, the
  // experiment. Sends the params of the job's spec that the run does not have.
  // FailedPrecondition if the experiment was deleted.
  static absl::StatusOr<MlflowRun> Open(TrackingServer& server,
                                        const v1::Job& job, const Owner& owner,
                                        Patience patience);

  const std::string& id() const { return run_.id; }
  const std::string& experiment_id() const { return experiment_id_; }
  // Returns the address of the run's web page.
  std::string Page() const;

  // Sends those of the points that the run does not have, at most
  // kMostMetricsPerCall. A step that is repeated keeps its first value.
  absl::Status Log(const std::vector<MetricPoint>& points);
  // Sets the status of the run, for example "FINISHED", with the time of its
  // end if it has ended. Does nothing if the run has that status.
  absl::Status SetStatus(const std::string& status,
                         std::optional<absl::Time> end);

  // Returns the number of points that were sent, and the metrics they belong
  // to.
  uint64_t count() const { return count_; }
  const std::set<std::string>& metrics() const { return metrics_; }

 private:
  MlflowRun(TrackingServer& server, Patience patience)
      : server_(&server), patience_(patience) {}
  absl::Status FindExperiment(const std::string& name);
  absl::Status FindOrCreate(const v1::Job& job, const Owner& owner);
  absl::Status SendParams(const v1::Job& job);
  absl::Status ReadAgain();
  std::vector<MetricPoint> Unsent(const std::vector<MetricPoint>& points) const;

  TrackingServer* server_;
  Patience patience_;
  std::string experiment_id_;
  TrackedRun run_;
  uint64_t count_ = 0;
  std::set<std::string> metrics_;
};

}  // namespace gpupool::client
