#include "server/metrics/families.h"

#include "server/metrics/metrics.h"

namespace gpupool::server {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;
using Bounds = Histogram::BucketBoundaries;

const Bounds& WaitBounds() {
  static const Bounds bounds{0.01, 0.05, 0.1, 0.5, 1,    5,     10,
                             30,   60,   300, 900, 3600, 14400, 86400};
  return bounds;
}

const Bounds& PredictionErrorBounds() {
  static const Bounds bounds = {-36000, -3600, -600, -60, -10,  -1,   0,
                                1,      10,    60,   600, 3600, 36000};
  return bounds;
}

const Bounds& CommitBounds() {
  static const Bounds bounds{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                             0.05,   0.1,   0.25,   0.5,   1,    5};
  return bounds;
}

const Bounds& DecisionBounds() {
  static const Bounds bounds{0.000001, 0.00001, 0.0001, 0.001, 0.01, 0.1, 1};
  return bounds;
}

Family<Counter>& AddCounters(Registry& registry, const char* name,
                             const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

Family<Gauge>& AddGauges(Registry& registry, const char* name,
                         const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

Family<Histogram>& AddHistograms(Registry& registry, const char* name,
                                 const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

}  // namespace

const Bounds& StepBounds() {
  static const Bounds bounds{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                             0.01,   0.025,   0.05,   0.1,   0.25,   0.5,
                             1,      2.5,     5,      10,    30};
  return bounds;
}

const Bounds& CheckpointBounds() {
  static const Bounds bounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                             0.5,   1,      2.5,   5,    10,    30,   60,  300};
  return bounds;
}

const Bounds& RequestBounds() {
  static const Bounds bounds{0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025,
                             0.005,   0.01,   0.025,   0.05,   0.1,   0.25,
                             0.5,     1,      2.5,     5,      10};
  return bounds;
}

const Bounds& BatchBounds() {
  static const Bounds bounds{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  return bounds;
}

std::string CodeLabel(absl::StatusCode code) {
  const std::string name = absl::StatusCodeToString(code);
  return name.empty() ? "UNKNOWN" : name;
}

MetricFamilies::MetricFamilies()
    : build_info(AddGauges(*registry, "gpupool_build_info",
                           "Always 1; the labels name the server's build.")),
      jobs(
          AddGauges(*registry, "gpupool_jobs", "Jobs in the store, by state.")),
      queue_jobs(AddGauges(*registry, "gpupool_queue_jobs",
                           "Jobs of a queue, by state.")),
      queue_devices(AddGauges(*registry, "gpupool_queue_devices",
                              "Devices that jobs of a queue hold.")),
      reserved_devices(AddGauges(*registry, "gpupool_reserved_devices",
                                 "Devices that are reserved for a tenant now.")
                           .Add({})),
      queue_wait(
          AddHistograms(*registry, "gpupool_job_queue_wait_seconds",
                        "Time that a job waited before an attempt started.")
              .Add({}, WaitBounds())),
      prediction_error(
          AddHistograms(*registry, "gpupool_start_prediction_error_seconds",
                        "Start of a job that had to wait minus the start that "
                        "was predicted at its submission.")
              .Add({}, PredictionErrorBounds())),
      preemptions(AddCounters(*registry, "gpupool_preemptions_total",
                              "Running jobs that were preempted, by reason.")),
      checkpoint_duration(AddHistograms(
          *registry, "gpupool_checkpoint_duration_seconds",
          "Time for which training stood still to copy or save a checkpoint "
          "(save), time to write a copy to disk in the background (write), and "
          "time to resume a job from a checkpoint (restore).")),
      store_commit(AddHistograms(*registry,
                                 "gpupool_store_commit_duration_seconds",
                                 "Duration of one durable transaction.")
                       .Add({}, CommitBounds())),
      decision(AddHistograms(*registry,
                             "gpupool_scheduler_decision_duration_seconds",
                             "Time that the scheduler took for one event.")
                   .Add({}, DecisionBounds())),
      reconcile_mismatches(
          AddCounters(*registry, "gpupool_reconcile_mismatches_total",
                      "Attempts on which store and worker disagreed.")
              .Add({})),
      blamed_jobs(AddCounters(*registry, "gpupool_jobs_blamed_total",
                              "Jobs that failed because several devices "
                              "failed while running them.")
                      .Add({})),
      rehearsals_waiting(
          AddGauges(*registry, "gpupool_rehearsals_waiting",
                    "Versions and jobs that wait to be tried alone, with the "
                    "one that is tried now.")
              .Add({})),
      rehearsals(AddCounters(*registry, "gpupool_rehearsals_total",
                             "Versions and jobs that were tried alone, by "
                             "what came of it. Untried: the process ended by "
                             "itself.")),
      device_memory(AddGauges(*registry, "gpupool_device_memory_bytes",
                              "Bytes of the device's allocator, by kind.")),
      device_utilization(
          AddGauges(*registry, "gpupool_device_utilization_ratio",
                    "Share of the last interval spent computing.")),
      device_up(AddGauges(*registry, "gpupool_device_up",
                          "1 while the device's worker is connected, else 0.")),
      device_quarantined(AddGauges(
          *registry, "gpupool_device_quarantined",
          "1 while the device is suspect and gets no worker, else 0.")),
      device_cooling(AddGauges(
          *registry, "gpupool_device_cooling",
          "1 while no job starts on the device after a fault, else 0.")),
      device_drained(AddGauges(
          *registry, "gpupool_device_drained",
          "1 while the device is drained, so that nothing new is placed "
          "there, else 0.")),
      device_faults_in_a_row(
          AddGauges(*registry, "gpupool_device_consecutive_faults",
                    "Faults of the device since a job last ended well "
                    "there.")),
      training_step(
          AddHistograms(*registry, "gpupool_training_step_seconds",
                        "Duration of a training step. All steps between two "
                        "heartbeats count with their mean.")),
      worker_restarts(AddCounters(*registry, "gpupool_worker_restarts_total",
                                  "Restarts of a device's worker.")),
      worker_hangs(
          AddCounters(*registry, "gpupool_worker_hangs_total",
                      "Workers that were killed because their work hung.")),
      device_faults(AddCounters(
          *registry, "gpupool_device_faults_total",
          "Faults of the device that ended a worker, by class: after "
          "lost_context the next worker may go on, suspect means quarantine.")),
      requests(AddCounters(*registry, "gpupool_inference_requests_total",
                           "Inference requests answered, by status code.")),
      request_duration(
          AddHistograms(*registry, "gpupool_inference_request_duration_seconds",
                        "Duration of an inference request, by stage.")),
      batch_size(AddHistograms(*registry, "gpupool_inference_batch_size",
                               "Rows of an executed batch.")),
      programs_compiled(AddCounters(
          *registry, "gpupool_inference_programs_compiled_total",
          "Programs compiled because a request had sizes that no program "
          "was for.")),
      programs_evicted(
          AddCounters(*registry, "gpupool_inference_programs_evicted_total",
                      "Programs removed to make room for others.")),
      inference_queue_depth(
          AddGauges(*registry, "gpupool_inference_queue_depth",
                    "Inference requests that wait for a batch.")),
      inference_queue_limit(
          AddGauges(*registry, "gpupool_inference_queue_limit",
                    "Bound of gpupool_inference_queue_depth.")),
      inference_under_load(
          AddGauges(*registry, "gpupool_inference_under_load",
                    "1 while requests wait for longer than the server's "
                    "--serving-target-delay, else 0.")),
      queue_depth(AddGauges(*registry, "gpupool_queue_depth",
                            "Entries of an internal queue.")),
      queue_limit(AddGauges(*registry, "gpupool_queue_limit",
                            "Bound of gpupool_queue_depth.")) {}

}  // namespace gpupool::server
