// The rpcs of gpupool.v1 by name. Made from the descriptors of the proto files,
// so that a new rpc needs nothing here. A proto file with services needs its
// line in method_index.cc.
//
// Thread-safety: any thread; an index never changes. Ownership: descriptors
// live as long as the process.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace google::protobuf {
class MethodDescriptor;
class ServiceDescriptor;
}  // namespace google::protobuf

namespace gpupool::server {

class MethodIndex {
 public:
  MethodIndex();

  // Returns the method of a service such as "gpupool.v1.JobService". NotFound
  // names the services or methods that there are.
  absl::StatusOr<const google::protobuf::MethodDescriptor*> Find(
      absl::string_view service, absl::string_view method) const;

  // Returns all services and methods as JSON:
  //   {"services":[{"name","methods":[{"name","path","kind","request",
  //   "response"}]}]}
  std::string ToJson() const;

  // Returns the services in the order of their names.
  const std::vector<const google::protobuf::ServiceDescriptor*>& services()
      const {
    return services_;
  }

 private:
  std::vector<const google::protobuf::ServiceDescriptor*> services_;
};

}  // namespace gpupool::server
