// A model repository in a temporary folder, a blob store, and calls that keep
// versions in memory instead of asking control.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/repository/folder_scan.h"
#include "server/repository/version_calls.h"
#include "server/store/blob_store.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::server {

class FakeCalls : public VersionCalls {
 public:
  absl::StatusOr<std::vector<v1::ModelVersion>> Versions() override {
    absl::MutexLock lock(&mutex_);
    std::vector<v1::ModelVersion> versions;
    for (const auto& [key, row] : rows_) versions.push_back(row);
    return versions;
  }
  absl::Status Import(const RepositoryImport& import) override {
    absl::MutexLock lock(&mutex_);
    calls_.push_back(absl::StrCat("import ", import.model.name(), "/",
                                  import.number, import.device));
    v1::ModelVersion row;
    row.set_model(import.model.name());
    row.set_version(import.number);
    *row.mutable_spec() = import.model.spec();
    *row.mutable_serving() = import.model.serving();
    *row.mutable_plan() = plan;
    row.set_from_repository(true);
    row.set_wanted_device(import.device);
    row.set_state(imported);
    const absl::Status checked = import.check(row);
    if (!checked.ok()) return checked;
    const auto refusal = refusals.find(import.number);
    if (refusal != refusals.end()) return refusal->second;
    rows_[{row.model(), row.version()}] = row;
    return absl::OkStatus();
  }
  absl::Status Load(const std::string& model, uint64_t version,
                    const std::string& device) override {
    absl::MutexLock lock(&mutex_);
    calls_.push_back(absl::StrCat("load ", model, "/", version, device));
    rows_[{model, version}].set_state(v1::READY);
    rows_[{model, version}].set_wanted_device(device);
    return absl::OkStatus();
  }
  absl::Status Unload(const std::string& model, uint64_t version) override {
    absl::MutexLock lock(&mutex_);
    calls_.push_back(absl::StrCat("unload ", model, "/", version));
    rows_[{model, version}].set_state(v1::UNLOADED);
    return absl::OkStatus();
  }
  void WhenLoaded(const std::string&, uint64_t,
                  std::function<void(const absl::Status&)> done) override {
    done(load_outcome);
  }

  // Returns the calls since the last call of this function.
  std::vector<std::string> TakeCalls() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(calls_, {});
  }
  v1::VersionState StateOf(const std::string& model, uint64_t version) {
    absl::MutexLock lock(&mutex_);
    const auto row = rows_.find({model, version});
    return row == rows_.end() ? v1::VERSION_STATE_UNSPECIFIED
                              : row->second.state();
  }
  void SetState(const std::string& model, uint64_t version,
                v1::VersionState state) {
    absl::MutexLock lock(&mutex_);
    rows_[{model, version}].set_state(state);
  }

  // The test sets these before the first call.
  v1::Plan plan;
  std::map<uint64_t, absl::Status> refusals;  // of imports, by version
  v1::VersionState imported = v1::READY;      // state after an import
  absl::Status load_outcome;

 private:
  absl::Mutex mutex_;
  std::map<std::pair<std::string, uint64_t>, v1::ModelVersion> rows_;
  std::vector<std::string> calls_;
};

class RepositoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    blobs_ = *BlobStore::Open(top_ / "blobs");
    std::filesystem::create_directories(root());
  }
  std::string root() const { return top_ / "models"; }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root() + "/" + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  void Remove(const std::string& path) {
    std::filesystem::remove_all(root() + "/" + path);
  }
  ModelFolder Find(const std::string& name) {
    for (ModelFolder& model : LookAtRepositories({root()}).models) {
      if (model.name == name) return model;
    }
    return {};
  }

  TempDir top_;
  std::unique_ptr<BlobStore> blobs_;
  FakeCalls calls_;
  std::atomic<bool> stop_{false};
};

}  // namespace gpupool::server
