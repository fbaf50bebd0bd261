#include "server/control/jobs/plan_cache.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "gpupool/v1/job.pb.h"
#include "scheduler/state/device_choice.h"
#include "server/control/records/rows.h"

namespace gpupool::server {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Clears rates and seeds, which are inputs of a program. A rate stays when its
// schedule is checked against it or when it may be refused.
void ForgetNumbers(v1::TrainingSpec& training) {
  training.clear_seed();
  const auto* reflection = training.GetReflection();
  const FieldDescriptor* chosen = reflection->GetOneofFieldDescriptor(
      training, training.GetDescriptor()->FindOneofByName("optimizer"));
  if (chosen == nullptr || training.has_schedule()) return;
  Message& optimizer = *reflection->MutableMessage(&training, chosen);
  const FieldDescriptor* field =
      optimizer.GetDescriptor()->FindFieldByName("learning_rate");
  const double rate = optimizer.GetReflection()->GetDouble(optimizer, field);
  if (!(rate > 0) || !std::isfinite(rate)) return;
  optimizer.GetReflection()->SetDouble(&optimizer, field, 1);
}

}  // namespace

std::string PlanCache::KeyOf(const v1::JobSpec& spec, uint64_t dataset_id,
                             uint64_t validation_id) {
  v1::JobSpec key = spec;
  key.clear_name();
  key.clear_tenant();
  key.clear_queue();
  key.clear_priority();
  key.clear_retry();
  key.clear_max_run_seconds();
  key.clear_after_ok();
  key.clear_after_any();
  key.clear_start_before();
  key.clear_deadline();
  key.clear_expected_run_seconds();
  key.clear_hold();
  key.clear_host_cores();
  key.clear_host_bytes();
  key.clear_exclusive();
  // Devices of a kind share one plan.
  key.set_device(std::string(scheduler::KindIn(spec.device())));
  ForgetNumbers(*key.mutable_training());
  key.mutable_training()->clear_profile();
  key.mutable_publish()->clear_model();
  key.mutable_data()->clear_dataset();
  key.mutable_data()->clear_validation();
  key.mutable_data()->clear_shuffle();
  if (key.data().has_synthetic()) {
    v1::SyntheticData& synthetic = *key.mutable_data()->mutable_synthetic();
    synthetic.clear_seed();
    synthetic.clear_noise();
  }
  return absl::StrCat(engine::Sha256Hex(CanonicalBytes(key)), "/", dataset_id,
                      "/", validation_id);
}

PlanCache::Plan PlanCache::Find(const std::string& key) {
  absl::MutexLock lock(&mutex_);
  const auto found = index_.find(key);
  if (found == index_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

void PlanCache::Add(const std::string& key, Plan plan) {
  absl::MutexLock lock(&mutex_);
  if (index_.contains(key)) return;
  entries_.emplace_front(key, std::move(plan));
  index_[key] = entries_.begin();
  if (entries_.size() <= limit_) return;
  index_.erase(entries_.back().first);
  entries_.pop_back();
}

void PlanCache::Clear() {
  absl::MutexLock lock(&mutex_);
  index_.clear();
  entries_.clear();
}

}  // namespace gpupool::server
