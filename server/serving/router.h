// Turns a request's model name and optional version into a handle of a ready
// version, or into an error whose text clients match on. Requests for inference
// also get a version whose worker is lost but is being replaced.
//
// Thread-safety: any thread. A successful look-up never blocks. A failed one
// asks the catalogue.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gpupool/v1/model.pb.h"
#include "server/serving/model_registry.h"

namespace gpupool::server {

class Router {
 public:
  // Returns all stored versions of a model, served or not; NotFound for an
  // unknown name. May be called on any thread.
  using Catalogue =
      std::function<absl::StatusOr<v1::Model>(absl::string_view model)>;

  // `registry` must outlive the router.
  Router(const ModelRegistry* registry, Catalogue catalogue);

  // Returns the version; for an empty `version` the newest ready one. Errors:
  //   * InvalidArgument: `version` is not a whole number from 1
  //   * NotFound: unknown model or version, or none is served or about to be
  //   * Unavailable: the version, or all of the model's, are not ready now
  absl::StatusOr<VersionHandle> Route(absl::string_view model,
                                      absl::string_view version) const;

  // Returns the same, but if nothing is ready also a version that was ready
  // and is loaded again: its batcher keeps requests until a worker has it.
  absl::StatusOr<VersionHandle> RouteToQueue(absl::string_view model,
                                             absl::string_view version) const;

 private:
  enum class Want { kReady, kReadyOrReturning };

  absl::StatusOr<VersionHandle> Find(absl::string_view model,
                                     absl::string_view version,
                                     Want want) const;
  // Returns the newest such version of these, or null. `number` 0: any.
  VersionHandle Returning(const v1::Model& model, uint64_t number) const;

  const ModelRegistry* const registry_;
  const Catalogue catalogue_;
};

// Returns the error for a model that does not exist.
absl::Status UnknownModel(absl::string_view model);

// Parses a whole number from 1, or returns InvalidArgument.
absl::StatusOr<uint64_t> ParseVersion(absl::string_view text);

}  // namespace gpupool::server
