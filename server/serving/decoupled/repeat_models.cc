#include "server/serving/decoupled/repeat_models.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/check.h"
#include "server/serving/decoupled/decoupled_executor.h"
#include "server/serving/decoupled/repeat_responses.h"
#include "server/serving/serving.h"
#include "spdlog/spdlog.h"

namespace gpupool::server {
namespace {

VersionFacts FactsOfRepeat(const v1::ModelVersion& row) {
  v1::ModelVersion version = row;
  DescribeRepeat(version.mutable_plan(), version.mutable_spec());
  absl::StatusOr<VersionFacts> facts = MakeVersionFacts(version);
  // The description is the program's own.
  GPUPOOL_CHECK(facts.ok());
  facts->decoupled = true;
  facts->own_backend = kRepeatBackend;
  return *std::move(facts);
}

}  // namespace

RepeatNeeds RepeatNeedsOf(Serving& serving) {
  return {.registry = serving.mutable_registry(),
          .timer = serving.timer(),
          .observer = serving.observer()};
}

absl::Status RepeatModels::Define(const std::string& model, uint64_t version) {
  // Let go without the lock: the last handle may call back.
  std::vector<VersionHandle> served = needs_.registry->All();
  VersionHandle made;
  uint64_t replaced = 0;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(model);
    const uint64_t own = found == entries_.end() ? 0 : found->second.id;
    for (const VersionHandle& handle : served) {
      const VersionFacts& facts = handle->facts();
      if (facts.model != model) continue;
      if (facts.id != own) {
        return absl::FailedPreconditionError(absl::StrCat(
            "another model '", model,
            "' is loaded; rename the folder, or unload that model"));
      }
      if (facts.version == version) return absl::OkStatus();
      replaced = own;
    }
    const Entry entry{.id = next_id_++, .version = version};
    entries_[model] = entry;
    made = Make(model, entry);
    needs_.registry->Add(made);
  }
  if (replaced != 0) needs_.registry->Drain(replaced, [] {});
  spdlog::info("model of the back end repeat is ready model={} version={}",
               model, version);
  return absl::OkStatus();
}

VersionHandle RepeatModels::Make(const std::string& model,
                                 const Entry& entry) const {
  v1::ModelVersion row;
  row.set_model(model);
  row.set_version(entry.version);
  row.set_id(entry.id);
  VersionFacts facts = FactsOfRepeat(row);
  DecoupledParts parts;
  parts.label = facts.label;
  parts.max_requests = facts.max_queue_size;
  parts.answer_bytes = kMostRepeats * (sizeof(int32_t) + sizeof(absl::Time));
  parts.make_source = [clock = std::make_shared<RepeatClock>()](
                          const InferenceCall& call,
                          absl::Span<const absl::Span<const std::byte>>) {
    return MakeRepeatResponses(call.inputs, absl::Now(), clock.get());
  };
  parts.timer = needs_.timer;
  if (needs_.observer != nullptr) {
    parts.observer = needs_.observer->Observe(facts.model, facts.version,
                                              facts.max_queue_size);
  }
  return std::make_shared<ServedVersion>(
      std::move(facts), std::make_shared<DecoupledExecutor>(std::move(parts)));
}

void RepeatModels::Remove(absl::string_view model,
                          std::function<void()> drained) {
  uint64_t id = 0;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(model);
    if (found != entries_.end()) {
      id = found->second.id;
      entries_.erase(found);
    }
  }
  if (id == 0) return drained();
  needs_.registry->Drain(id, std::move(drained));
}

bool RepeatModels::Has(absl::string_view model) const {
  absl::MutexLock lock(&mutex_);
  return entries_.contains(model);
}

std::vector<std::string> RepeatModels::Names() const {
  std::vector<std::string> names;
  absl::MutexLock lock(&mutex_);
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

std::vector<v1::ModelVersion> RepeatModels::Rows() const {
  std::vector<v1::ModelVersion> rows;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [name, entry] : entries_) {
      v1::ModelVersion& row = rows.emplace_back();
      row.set_model(name);
      row.set_version(entry.version);
      row.set_id(entry.id);
      row.set_from_repository(true);
      row.set_state(v1::READY);
    }
  }
  for (v1::ModelVersion& row : rows) {
    const VersionHandle served =
        needs_.registry->Find(row.model(), row.version());
    if (served != nullptr && served->facts().id == row.id()) continue;
    row.set_state(v1::LOAD_FAILED);
    row.set_error("another model of this name is loaded; rename the folder");
  }
  return rows;
}

}  // namespace gpupool::server
