#include "server/http/method_index.h"

#include <google/protobuf/descriptor.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/test_paths.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

// Returns the second words of the lines in proto/gpupool/v1 that begin with
// `first`, after indentation.
std::multiset<std::string> NamesInProtos(const std::string& first) {
  std::multiset<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(SourcePath("proto/gpupool/v1"))) {
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string word, name;
      words >> word >> name;
      if (word == first) names.insert(name.substr(0, name.find('(')));
    }
  }
  return names;
}

TEST(MethodIndexTest, HasEveryServiceAndRpcOfTheProtoFiles) {
  std::multiset<std::string> services, methods;
  const MethodIndex index;
  for (const auto* service : index.services()) {
    services.insert(std::string(service->name()));
    for (int i = 0; i < service->method_count(); ++i) {
      methods.insert(std::string(service->method(i)->name()));
    }
  }
  EXPECT_GT(services.size(), 5u);
  EXPECT_EQ(services, NamesInProtos("service"))
      << "add the file to FilesWithServices in method_index.cc";
  EXPECT_EQ(methods, NamesInProtos("rpc"));
}

TEST(MethodIndexTest, FindsMethodsByTheNamesOfTheirServices) {
  const MethodIndex index;
  const auto method = index.Find("gpupool.v1.JobService", "WatchJob");
  ASSERT_TRUE(method.ok()) << method.status();
  EXPECT_EQ((*method)->input_type()->full_name(), "gpupool.v1.WatchJobRequest");
  EXPECT_TRUE((*method)->server_streaming());
}

TEST(MethodIndexTest, AnUnknownNameIsAnsweredWithTheKnownOnes) {
  const MethodIndex index;
  const auto method = index.Find("gpupool.v1.JobService", "Submit").status();
  EXPECT_TRUE(absl::IsNotFound(method));
  EXPECT_THAT(std::string(method.message()),
              HasSubstr("gpupool.v1.JobService has no method 'Submit'; it has "
                        "SubmitJob, GetJob, "));
  const auto service = index.Find("JobService", "SubmitJob").status();
  EXPECT_TRUE(absl::IsNotFound(service));
  EXPECT_THAT(std::string(service.message()),
              HasSubstr("there is no service 'JobService'; the services are "
                        "gpupool.v1.AdminService, "));
  const auto longer = index.Find(std::string(5000, 'x'), "y").status();
  EXPECT_LT(longer.message().size(), 1000u);
}

TEST(MethodIndexTest, ListsTypesAndKinds) {
  const auto json = nlohmann::json::parse(MethodIndex().ToJson());
  std::set<std::string> kinds;
  for (const auto& service : json["services"]) {
    for (const auto& method : service["methods"]) {
      kinds.insert(method["kind"].get<std::string>());
    }
    if (service["name"] != "gpupool.v1.JobService") continue;
    EXPECT_EQ(service["methods"][0], nlohmann::json::parse(
                                         R"({"name":"SubmitJob","kind":"unary",
                      "path":"/api/gpupool.v1.JobService/SubmitJob",
                      "request":"gpupool.v1.SubmitJobRequest",
                      "response":"gpupool.v1.Job"})"));
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"unary", "server_streaming",
                                          "client_streaming"}));
}

// A line {"error":...} of a stream could be taken for such a message.
TEST(MethodIndexTest, NoMessageOfAStreamHasAFieldError) {
  const MethodIndex index;
  for (const auto* service : index.services()) {
    for (int i = 0; i < service->method_count(); ++i) {
      const auto* method = service->method(i);
      if (!method->server_streaming()) continue;
      EXPECT_EQ(method->output_type()->FindFieldByName("error"), nullptr)
          << method->full_name();
    }
  }
}

}  // namespace
}  // namespace gpupool::server
