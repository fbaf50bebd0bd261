#include "server/auth/method_roles.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
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
#include "inference/grpc_service.pb.h"

namespace gpupool::server {
namespace {

using google::protobuf::FileDescriptor;
using google::protobuf::ServiceDescriptor;

// Every proto file with services. server/http/method_index.cc has the same list
// for those of gpupool.v1.
std::vector<const FileDescriptor*> Files() {
  return {v1::ServerInfo::descriptor()->file(),
          v1::Token::descriptor()->file(),
          v1::Dataset::descriptor()->file(),
          v1::Device::descriptor()->file(),
          v1::Job::descriptor()->file(),
          v1::Model::descriptor()->file(),
          v1::Reservation::descriptor()->file(),
          v1::Upload::descriptor()->file(),
          v1::GetUsageRequest::descriptor()->file(),
          inference::ModelInferRequest::descriptor()->file()};
}

std::set<std::string> DescribedMethods() {
  std::set<std::string> methods;
  for (const FileDescriptor* file : Files()) {
    for (int i = 0; i < file->service_count(); ++i) {
      const ServiceDescriptor* service = file->service(i);
      for (int j = 0; j < service->method_count(); ++j) {
        methods.insert(absl::StrCat("/", service->full_name(), "/",
                                    service->method(j)->name()));
      }
    }
  }
  return methods;
}

TEST(MethodRolesTest, EveryMethodOfEveryServiceHasARole) {
  for (const std::string& method : DescribedMethods()) {
    EXPECT_TRUE(LeastRoleFor(method).has_value())
        << method << " is not in server/auth/method_roles.inc";
  }
}

TEST(MethodRolesTest, TheTableNamesEachMethodOnceAndNoOther) {
  const std::set<std::string> described = DescribedMethods();
  std::set<std::string> seen;
  for (const auto& [method, role, effect] : MethodRoles()) {
    EXPECT_TRUE(seen.insert(std::string(method)).second) << method;
    if (absl::StartsWith(method, "/grpc.")) continue;  // gRPC's own services
    EXPECT_TRUE(described.contains(std::string(method))) << method;
  }
}

TEST(MethodRolesTest, AnUnknownMethodHasNoRole) {
  for (const char* method :
       {"", "/", "/gpupool.v1.JobService", "/gpupool.v1.JobService/",
        "/gpupool.v1.JobService/Submit", "gpupool.v1.JobService/GetJob",
        "//gpupool.v1.JobService/GetJob", "/gpupool.v1.jobservice/getjob"}) {
    EXPECT_FALSE(LeastRoleFor(method).has_value()) << method;
  }
}

TEST(MethodRolesTest, OnlyHealthAndProbesAreOpen) {
  std::set<absl::string_view> open;
  for (const auto& [method, role, effect] : MethodRoles()) {
    if (role == v1::ROLE_UNSPECIFIED) open.insert(method);
  }
  EXPECT_EQ(open,
            (std::set<absl::string_view>{
                "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch",
                "/inference.GRPCInferenceService/ServerLive",
                "/inference.GRPCInferenceService/ServerReady"}));
}

TEST(MethodRolesTest, TokensAndCopiesOfTheDatabaseAreForAdmins) {
  for (const char* method : {"/gpupool.v1.AuthService/CreateToken",
                             "/gpupool.v1.AuthService/ListTokens",
                             "/gpupool.v1.AuthService/RevokeToken",
                             "/gpupool.v1.AdminService/BackUpDatabase"}) {
    EXPECT_EQ(LeastRoleFor(method), v1::ADMIN) << method;
  }
}

TEST(MethodRolesTest, MethodsWithTheNamesOfChangesChangeSomething) {
  for (const MethodRole& row : MethodRoles()) {
    const absl::string_view name = row.method.substr(row.method.rfind('/') + 1);
    for (const char* verb :
         {"Submit", "Cancel", "Hold", "Release", "Requeue", "Upload", "Promote",
          "Load", "Unload", "Delete", "Empty", "Reset", "Set", "Drain",
          "Resume", "Record", "Create", "Revoke", "RepositoryModel"}) {
      if (!absl::StartsWith(name, verb)) continue;
      EXPECT_EQ(row.effect, Effect::kChanges) << row.method;
    }
    for (const char* verb : {"Get", "List", "Watch", "Explain", "Plan"}) {
      if (!absl::StartsWith(name, verb)) continue;
      EXPECT_EQ(row.effect, Effect::kReads) << row.method;
    }
  }
}

TEST(MethodRolesTest, OnlyRequestsToModelsInfer) {
  std::set<absl::string_view> infer;
  for (const MethodRole& row : MethodRoles()) {
    if (row.effect == Effect::kInfers) infer.insert(row.method);
  }
  EXPECT_EQ(infer, (std::set<absl::string_view>{
                       "/inference.GRPCInferenceService/ModelInfer",
                       "/inference.GRPCInferenceService/ModelStreamInfer"}));
  EXPECT_FALSE(EffectOf("/gpupool.v1.JobService/Submit").has_value());
}

TEST(MethodRolesTest, RolesHaveTheNamesThatPeopleWrite) {
  EXPECT_EQ(RoleName(v1::OPERATOR), "operator");
}

}  // namespace
}  // namespace gpupool::server
