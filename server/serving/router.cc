#include "server/serving/router.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

// Start of every look-up error: clients match on it.
constexpr absl::string_view kPrefix = "Request for unknown model: ";

// Returns NotFound for an unknown version, Unavailable for a known one.
absl::Status WhyNotVersion(const v1::Model& model, uint64_t version) {
  const bool known =
      std::any_of(model.versions().begin(), model.versions().end(),
                  [&](const auto& v) { return v.version() == version; });
  const std::string what =
      absl::StrCat(kPrefix, "'", model.name(), "' version ", version);
  if (!known) return absl::NotFoundError(absl::StrCat(what, " is not found"));
  return absl::UnavailableError(absl::StrCat(
      what, " is not at ready state; load it, or retry when it is loading"));
}

// Returns whether the version is about to be ready. If it is ready in the
// catalogue but not here, its worker restarts.
bool IsComing(const v1::ModelVersion& version) {
  return version.state() == v1::LOADING || version.state() == v1::READY;
}

// Returns Unavailable while some version is about to be ready, so that clients
// retry.
absl::Status WhyNotAny(const v1::Model& model) {
  for (const v1::ModelVersion& version : model.versions()) {
    if (IsComing(version)) {
      return absl::UnavailableError(
          absl::StrCat(kPrefix, "'", model.name(), "' version ",
                       version.version(), " is not at ready state; retry"));
    }
  }
  return absl::NotFoundError(absl::StrCat(
      kPrefix, "'", model.name(), "' has no available versions; load one"));
}

}  // namespace

Router::Router(const ModelRegistry* registry, Catalogue catalogue)
    : registry_(registry), catalogue_(std::move(catalogue)) {}

absl::StatusOr<VersionHandle> Router::Route(absl::string_view model,
                                            absl::string_view version) const {
  return Find(model, version, Want::kReady);
}

absl::StatusOr<VersionHandle> Router::RouteToQueue(
    absl::string_view model, absl::string_view version) const {
  return Find(model, version, Want::kReadyOrReturning);
}

absl::StatusOr<VersionHandle> Router::Find(absl::string_view model,
                                           absl::string_view version,
                                           Want want) const {
  uint64_t number = 0;
  if (!version.empty()) {
    ASSIGN_OR_RETURN(number, ParseVersion(version));
  }
  VersionHandle handle = number == 0 ? registry_->FindNewest(model)
                                     : registry_->Find(model, number);
  if (handle != nullptr) return handle;
  const absl::StatusOr<v1::Model> known = catalogue_(model);
  if (absl::IsNotFound(known.status())) {
    return UnknownModel(model);
  }
  RETURN_IF_ERROR(known.status());
  if (want == Want::kReadyOrReturning) handle = Returning(*known, number);
  if (handle != nullptr) return handle;
  return number == 0 ? WhyNotAny(*known) : WhyNotVersion(*known, number);
}

// Asks the catalogue's states as well, which are ahead of the registry.
VersionHandle Router::Returning(const v1::Model& model, uint64_t number) const {
  VersionHandle newest;
  for (const v1::ModelVersion& version : model.versions()) {
    if (!IsComing(version)) continue;
    if (number != 0 && version.version() != number) continue;
    VersionHandle handle = registry_->FindById(version.id());
    if (handle == nullptr) continue;
    if (newest == nullptr ||
        newest->facts().version < handle->facts().version) {
      newest = std::move(handle);
    }
  }
  return newest;
}

absl::Status UnknownModel(absl::string_view model) {
  return absl::NotFoundError(
      absl::StrCat(kPrefix, "'", model, "' is not found"));
}

absl::StatusOr<uint64_t> ParseVersion(absl::string_view text) {
  uint64_t version = 0;
  const bool digits = std::all_of(text.begin(), text.end(),
                                  [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || !absl::SimpleAtoi(text, &version) || version == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "failed to get model version from specified version string '", text,
        "': expected a whole number from 1"));
  }
  return version;
}

}  // namespace gpupool::server
