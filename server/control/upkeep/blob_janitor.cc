#include "server/control/upkeep/blob_janitor.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/control/calls/log.h"
#include "server/pool/spooled_reports.h"
#include "server/store/lost_database.h"

namespace gpupool::server {
namespace {

constexpr uint64_t kManifestLimitBytes = uint64_t{16} << 20;

// Adds the model's files. A manifest names them too, but a job that has not
// begun has no manifest yet.
void AddFilesOf(const v1::ModelSpec& model,
                absl::flat_hash_set<std::string>& used) {
  if (model.has_weights()) used.insert(model.weights().sha256());
  if (!model.has_onnx()) return;
  used.insert(model.onnx().sha256());
  for (const auto& file : model.onnx().external_files()) {
    used.insert(file.sha256());
  }
}

// Adds the blobs that reports name, unless the report will be dropped because
// its job has ended or has a later attempt. `jobs` have not ended.
void AddReported(const std::vector<worker::v1::Report>& reports,
                 const std::vector<v1::Job>& jobs,
                 absl::flat_hash_set<std::string>& used,
                 std::vector<std::string>& manifests) {
  if (reports.empty()) return;
  absl::flat_hash_map<uint64_t, uint32_t> attempts;
  for (const v1::Job& job : jobs) attempts[job.id()] = job.attempt();
  for (const worker::v1::Report& report : reports) {
    const auto attempt = attempts.find(report.job_id());
    if (attempt == attempts.end() || attempt->second != report.attempt()) {
      continue;
    }
    if (report.has_checkpoint()) {
      manifests.push_back(report.checkpoint().manifest_sha256());
    }
    if (report.has_profile()) used.insert(report.profile().sha256());
  }
}

}  // namespace

BlobJanitor::BlobJanitor(Options options, const Store* store,
                         const BlobStore* blobs)
    : options_(options), store_(store), blobs_(blobs) {}

BlobJanitor::~BlobJanitor() { Stop(); }

void BlobJanitor::Start() {
  thread_ = std::thread([this] { Run(); });
}

void BlobJanitor::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void BlobJanitor::Want() {
  absl::MutexLock lock(&mutex_);
  wanted_ = true;
}

void BlobJanitor::Run() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(this, &BlobJanitor::HasNews),
                              options_.interval);
      if (stopping_) return;
      // Cleared before the sweep, so that a wish during the sweep starts
      // another.
      wanted_ = false;
    }
    auto result = SweepOnce(absl::Now());
    if (!result.ok()) {
      LogWarning(absl::StrCat(
          "event=sweep_failed effect=\"no blob is removed\" error=\"",
          result.status().message(), "\""));
    } else if (result->removed_files > 0) {
      LogInfo(absl::StrCat("event=swept files=", result->removed_files,
                           " bytes=", result->removed_bytes));
    }
  }
}

void BlobJanitor::SweepPartials(absl::Time now) {
  const SweepResult removed = blobs_->partials().Sweep(now);
  if (removed.removed_files == 0) return;
  LogInfo(absl::StrCat("event=uploads_expired files=", removed.removed_files,
                       " bytes=", removed.removed_bytes));
}

absl::StatusOr<std::vector<std::string>> BlobJanitor::FilesOf(
    const std::string& manifest) {
  // A manifest is named by its content, so a known one never changes.
  auto known = manifests_.find(manifest);
  if (known != manifests_.end()) return known->second;
  std::vector<std::string> files;
  auto bytes = blobs_->Read(manifest, kManifestLimitBytes);
  if (absl::IsNotFound(bytes.status())) return files;
  if (!bytes.ok()) return bytes.status();
  const auto json = nlohmann::json::parse(*bytes, nullptr,
                                          /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("files") ||
      !json["files"].is_array()) {
    return absl::DataLossError(
        absl::StrCat("manifest ", manifest, " is not readable"));
  }
  for (const auto& file : json["files"]) {
    if (!file.is_object()) continue;
    files.push_back(file.value("sha256", ""));
  }
  manifests_[manifest] = files;
  return files;
}

absl::StatusOr<std::vector<worker::v1::Report>> BlobJanitor::Spooled() const {
  if (options_.state_dir.empty()) return std::vector<worker::v1::Report>();
  return ReadSpooledReports(options_.state_dir);
}

// Returns all blobs that rows, manifests or reports name. An unreadable
// manifest is an error: the sweep would take its files for garbage.
absl::StatusOr<absl::flat_hash_set<std::string>> BlobJanitor::References() {
  absl::flat_hash_set<std::string> used;
  std::vector<std::string> manifests;
  // Before the rows: a report leaves its spool when its row is on disk.
  ASSIGN_OR_RETURN(const auto reports, Spooled());
  ASSIGN_OR_RETURN(const auto datasets, store_->LoadDatasets());
  for (const auto& dataset : datasets) {
    for (const auto& file : dataset.files()) used.insert(file.sha256());
  }
  ASSIGN_OR_RETURN(const auto jobs, store_->LoadAllActiveJobs());
  for (const auto& job : jobs) AddFilesOf(job.spec().model(), used);
  AddReported(reports, jobs, used, manifests);
  ASSIGN_OR_RETURN(const auto profiled, store_->LoadProfiledJobs());
  for (const auto& job : profiled) {
    for (const auto& profile : job.recorded_profiles()) {
      used.insert(profile.sha256());
    }
  }
  ASSIGN_OR_RETURN(const auto checkpoints, store_->LoadCheckpoints(0));
  for (const auto& row : checkpoints) {
    manifests.push_back(row.manifest_sha256());
  }
  ASSIGN_OR_RETURN(const auto versions, store_->LoadVersions());
  for (const auto& row : versions) manifests.push_back(row.manifest_sha256());
  for (const std::string& manifest : manifests) {
    if (!used.insert(manifest).second) continue;
    ASSIGN_OR_RETURN(const auto files, FilesOf(manifest));
    used.insert(files.begin(), files.end());
  }
  return used;
}

// Adds the blobs that are older than the database.
absl::Status BlobJanitor::KeepOld(absl::flat_hash_set<std::string>& used) {
  ASSIGN_OR_RETURN(const uint64_t begin, store_->GetCounter(kBeginCounter));
  if (begin == 0) return absl::OkStatus();  // of an earlier version
  const absl::Time time = absl::FromUnixNanos(static_cast<int64_t>(begin));
  size_t kept = 0;
  for (const std::string& name : BlobsBefore(blobs_->directory(), time)) {
    kept += used.insert(name).second;
  }
  if (kept != std::exchange(kept_old_, kept) && kept > 0) {
    LogWarning(absl::StrCat(
        "event=old_blobs_kept files=", kept, " folder=", blobs_->directory(),
        " text=\"they are older than the database, and no row names them\" "
        "remedy=\"restore the database that they belong to, or remove files "
        "that were last written before ",
        absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone()), "\""));
  }
  return absl::OkStatus();
}

absl::StatusOr<SweepResult> BlobJanitor::SweepOnce(absl::Time now) {
  SweepPartials(now);
  ASSIGN_OR_RETURN(auto used, References());
  RETURN_IF_ERROR(KeepOld(used));
  return blobs_->Sweep(used, options_.min_age, now);
}

}  // namespace gpupool::server
