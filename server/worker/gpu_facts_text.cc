#include "server/worker/gpu_facts_text.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

absl::Status Wrong(const char* member) {
  return absl::InvalidArgumentError(
      absl::StrCat("the facts of a GPU have no or a wrong \"", member,
                   "\"; take them from gpupool-worker devices of this build"));
}

absl::Status Take(const nlohmann::json& gpu, const char* member,
                  std::string& into) {
  const auto found = gpu.find(member);
  if (found == gpu.end() || !found->is_string()) return Wrong(member);
  into = found->get<std::string>();
  return absl::OkStatus();
}

template <typename Number>
absl::Status Take(const nlohmann::json& gpu, const char* member, Number& into) {
  const auto found = gpu.find(member);
  if (found == gpu.end() || !found->is_number_unsigned()) return Wrong(member);
  into = static_cast<Number>(found->get<uint64_t>());
  return found->get<uint64_t>() == into ? absl::OkStatus() : Wrong(member);
}

}  // namespace

nlohmann::json ToJson(const engine::DeviceFacts& facts) {
  return {{"name", facts.name},
          {"uuid", facts.uuid},
          {"pci_bus_id", facts.pci_bus_id},
          {"compute_capability", facts.compute_capability},
          {"multiprocessors", facts.multiprocessors},
          {"threads_per_multiprocessor", facts.threads_per_multiprocessor},
          {"total_bytes", facts.total_bytes},
          {"driver_version", facts.driver_version},
          {"cuda_version", facts.cuda_version},
          {"properties", facts.properties}};
}

absl::StatusOr<engine::DeviceFacts> ParseGpuFacts(const std::string& text) {
  const auto gpu = nlohmann::json::parse(text, nullptr, false);
  if (!gpu.is_object()) {
    return absl::InvalidArgumentError(
        "the facts of a GPU are no object of JSON; take them from "
        "gpupool-worker devices");
  }
  engine::DeviceFacts facts;
  RETURN_IF_ERROR(Take(gpu, "name", facts.name));
  RETURN_IF_ERROR(Take(gpu, "uuid", facts.uuid));
  RETURN_IF_ERROR(Take(gpu, "pci_bus_id", facts.pci_bus_id));
  RETURN_IF_ERROR(Take(gpu, "compute_capability", facts.compute_capability));
  RETURN_IF_ERROR(Take(gpu, "multiprocessors", facts.multiprocessors));
  RETURN_IF_ERROR(Take(gpu, "threads_per_multiprocessor",
                       facts.threads_per_multiprocessor));
  RETURN_IF_ERROR(Take(gpu, "total_bytes", facts.total_bytes));
  RETURN_IF_ERROR(Take(gpu, "driver_version", facts.driver_version));
  RETURN_IF_ERROR(Take(gpu, "cuda_version", facts.cuda_version));
  RETURN_IF_ERROR(Take(gpu, "properties", facts.properties));
  return facts;
}

}  // namespace gpupool::server
