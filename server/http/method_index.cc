#include "server/http/method_index.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gpupool/v1/admin.pb.h"
#include "gpupool/v1/auth.pb.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"
#include "gpupool/v1/reservation.pb.h"
#include "gpupool/v1/upload.pb.h"
#include "gpupool/v1/usage.pb.h"
#include "nlohmann/json.hpp"

namespace gpupool::server {
namespace {

using google::protobuf::FileDescriptor;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

// Names of clients that are quoted in messages are cut to this length.
constexpr size_t kMostOfName = 80;

// Returns the proto files with services, each found by one of its messages.
std::vector<const FileDescriptor*> FilesWithServices() {
  return {v1::ServerInfo::descriptor()->file(),
          v1::Token::descriptor()->file(),
          v1::Dataset::descriptor()->file(),
          v1::Device::descriptor()->file(),
          v1::Job::descriptor()->file(),
          v1::Model::descriptor()->file(),
          v1::Reservation::descriptor()->file(),
          v1::Upload::descriptor()->file(),
          v1::GetUsageRequest::descriptor()->file()};
}

std::string Quoted(absl::string_view name) {
  return absl::StrCat("'", name.substr(0, kMostOfName),
                      name.size() > kMostOfName ? "..." : "", "'");
}

std::string KindOf(const MethodDescriptor& method) {
  if (method.client_streaming()) return "client_streaming";
  return method.server_streaming() ? "server_streaming" : "unary";
}

nlohmann::ordered_json MethodJson(const MethodDescriptor& method) {
  return {{"name", method.name()},
          {"path", absl::StrCat("/api/", method.service()->full_name(), "/",
                                method.name())},
          {"kind", KindOf(method)},
          {"request", method.input_type()->full_name()},
          {"response", method.output_type()->full_name()}};
}

}  // namespace

MethodIndex::MethodIndex() {
  for (const FileDescriptor* file : FilesWithServices()) {
    for (int i = 0; i < file->service_count(); ++i) {
      services_.push_back(file->service(i));
    }
  }
  std::sort(services_.begin(), services_.end(),
            [](const ServiceDescriptor* a, const ServiceDescriptor* b) {
              return a->full_name() < b->full_name();
            });
}

absl::StatusOr<const MethodDescriptor*> MethodIndex::Find(
    absl::string_view service, absl::string_view method) const {
  std::string services;
  for (const ServiceDescriptor* known : services_) {
    absl::StrAppend(&services, services.empty() ? "" : ", ",
                    known->full_name());
    if (known->full_name() != service) continue;
    std::string methods;
    for (int i = 0; i < known->method_count(); ++i) {
      const MethodDescriptor* candidate = known->method(i);
      if (candidate->name() == method) return candidate;
      absl::StrAppend(&methods, methods.empty() ? "" : ", ", candidate->name());
    }
    return absl::NotFoundError(absl::StrCat(
        service, " has no method ", Quoted(method), "; it has ", methods));
  }
  return absl::NotFoundError(absl::StrCat("there is no service ",
                                          Quoted(service),
                                          "; the services are ", services));
}

std::string MethodIndex::ToJson() const {
  nlohmann::ordered_json services = nlohmann::ordered_json::array();
  for (const ServiceDescriptor* service : services_) {
    nlohmann::ordered_json methods = nlohmann::ordered_json::array();
    for (int i = 0; i < service->method_count(); ++i) {
      methods.push_back(MethodJson(*service->method(i)));
    }
    services.push_back(
        {{"name", service->full_name()}, {"methods", std::move(methods)}});
  }
  const nlohmann::ordered_json json = {{"services", std::move(services)}};
  return json.dump();
}

}  // namespace gpupool::server
