#include "server/api/inference/shared_regions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <thread>

#include "server/auth/access_gate.h"
#include "server/auth/secret.h"
#include "tests/server/api_inference/inference_server.h"
#include "tests/server/serving/regions/region_files.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ParameterMap =
    google::protobuf::Map<std::string, inference::InferParameter>;

// Makes a token of the tenant, and returns its header.
std::string TokenOf(uint64_t id, const std::string& tenant, AccessGate* gate) {
  const std::string secret = *NewSecret();
  v1::StoredToken stored;
  stored.mutable_token()->set_id(id);
  stored.mutable_token()->set_tenant(tenant);
  stored.mutable_token()->set_role(v1::USER);
  stored.set_secret_sha256(DigestOf(secret));
  gate->tokens().Put(stored);
  return "Bearer " + secret;
}

class SharedRegionsTest : public ::testing::Test {
 protected:
  SharedRegionsTest() {
    files_.Put("/open", "0123456789abcdef");
    files_.Put("/private", "0123456789abcdef", 0600);
    server_.guard->SetUser({.uid = ::geteuid()});
  }

  grpc::Status Register(const std::string& header, const std::string& name,
                        const std::string& key, uint64_t bytes = 16) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", header);
    inference::SystemSharedMemoryRegisterRequest request;
    request.set_name(name);
    request.set_key(key);
    request.set_byte_size(bytes);
    inference::SystemSharedMemoryRegisterResponse response;
    return server_.stub->SystemSharedMemoryRegister(&context, request,
                                                    &response);
  }
  int CountOf(const std::string& header) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", header);
    inference::SystemSharedMemoryStatusResponse response;
    const grpc::Status status = server_.stub->SystemSharedMemoryStatus(
        &context, inference::SystemSharedMemoryStatusRequest(), &response);
    return status.ok() ? response.regions_size() : -1;
  }
  void UnregisterAll(const std::string& header) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", header);
    inference::SystemSharedMemoryUnregisterResponse response;
    EXPECT_TRUE(server_.stub
                    ->SystemSharedMemoryUnregister(
                        &context,
                        inference::SystemSharedMemoryUnregisterRequest(),
                        &response)
                    .ok());
  }
  static void SetRegion(const std::string& region, int64_t bytes,
                        ParameterMap* parameters) {
    (*parameters)["shared_memory_region"].set_string_param(region);
    (*parameters)["shared_memory_byte_size"].set_int64_param(bytes);
  }
  grpc::Status Infer(const std::string& header,
                     const inference::ModelInferRequest& request) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", header);
    response_.Clear();
    return server_.stub->ModelInfer(&context, request, &response_);
  }
  grpc::Status InferFrom(const std::string& header, const std::string& region) {
    inference::ModelInferRequest request = RawRequest({1, 2, 3, 4});
    request.clear_raw_input_contents();
    SetRegion(region, 16, request.mutable_inputs(0)->mutable_parameters());
    return Infer(header, request);
  }
  // Sends a request over a stream, and returns the error of the first message.
  std::string FirstOfStream(const inference::ModelInferRequest& request) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", lab_);
    const auto stream = server_.stub->ModelStreamInfer(&context);
    EXPECT_TRUE(stream->Write(request));
    stream->WritesDone();
    inference::ModelStreamInferResponse first;
    inference::ModelStreamInferResponse further;
    EXPECT_TRUE(stream->Read(&first));
    while (stream->Read(&further)) {
    }
    EXPECT_TRUE(stream->Finish().ok());
    return first.error_message();
  }
  // Sends a request that has its answer written to "/open", and does
  // `meanwhile` while the worker computes.
  grpc::Status InferInto(const std::string& region, int64_t bytes,
                         const std::function<void()>& meanwhile) {
    inference::ModelInferRequest request = RawRequest({1, 2, 3, 4});
    auto* output = request.add_outputs();
    output->set_name("output");
    SetRegion(region, bytes, output->mutable_parameters());
    server_.worker.Pause();
    grpc::Status status;
    std::thread caller([&] { status = Infer(lab_, request); });
    EXPECT_TRUE(
        WaitUntil([&] { return server_.worker.ring()->slots_in_use() == 1; }));
    meanwhile();
    server_.worker.Resume();
    caller.join();
    return status;
  }
  std::vector<float> Values() const {
    const std::string text = files_.Get("/open");
    std::vector<float> values(text.size() / sizeof(float));
    std::memcpy(values.data(), text.data(), values.size() * sizeof(float));
    return values;
  }

  RegionFiles files_;
  AccessGate gate_{FreeCallers::kNone, absl::Now};
  const std::string lab_ = TokenOf(1, "lab", &gate_);
  const std::string ward_ = TokenOf(2, "ward", &gate_);
  InferenceServer server_{
      1 << 20, nullptr,
      std::make_shared<SharedRegions>(&gate_, files_.folder())};
  inference::ModelInferResponse response_;
};

TEST_F(SharedRegionsTest, ARegionIsOfTheTenantOfTheToken) {
  ASSERT_TRUE(Register(lab_, "r", "/open").ok());
  EXPECT_TRUE(Register(ward_, "r", "/open").ok());
  EXPECT_TRUE(Register(ward_, "s", "/open").ok());
  EXPECT_EQ(CountOf(lab_), 1);
  EXPECT_EQ(CountOf(ward_), 2);
  EXPECT_TRUE(InferFrom(ward_, "s").ok());
  EXPECT_EQ(InferFrom(lab_, "s").error_code(), grpc::NOT_FOUND);
  UnregisterAll(lab_);
  EXPECT_EQ(CountOf(lab_), 0);
  EXPECT_EQ(CountOf(ward_), 2);
}

TEST_F(SharedRegionsTest, ATokenThatEndedHasNoRegions) {
  const grpc::Status status = Register("Bearer gpk_unknown", "r", "/open");
  EXPECT_EQ(status.error_code(), grpc::UNAUTHENTICATED);
  ASSERT_TRUE(Register(lab_, "r", "/open").ok());
  EXPECT_EQ(InferFrom("Bearer gpk_unknown", "r").error_code(),
            grpc::UNAUTHENTICATED);
}

TEST_F(SharedRegionsTest, ARegionThatIsUnregisteredInFlightGetsTheAnswer) {
  ASSERT_TRUE(Register(lab_, "r", "/open").ok());
  const grpc::Status status =
      InferInto("r", 16, [this] { UnregisterAll(lab_); });
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(Values(), ElementsAre(2, 4, 6, 8));
  EXPECT_EQ(response_.raw_output_contents(0), "");
  EXPECT_EQ(CountOf(lab_), 0);
}

TEST_F(SharedRegionsTest, ARegionThatIsTruncatedInFlightFailsOneRequest) {
  ASSERT_TRUE(Register(lab_, "r", "/open").ok());
  const grpc::Status status =
      InferInto("r", 16, [this] { files_.Resize("/open", 8); });
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(files_.Get("/open"), "01234567");
  EXPECT_EQ(InferFrom(lab_, "r").error_code(), grpc::FAILED_PRECONDITION);
  files_.Resize("/open", 16);
  EXPECT_TRUE(InferFrom(lab_, "r").ok());
}

TEST_F(SharedRegionsTest, AnAnswerThatDoesNotFitLeavesTheRegionAsItIs) {
  ASSERT_TRUE(Register(lab_, "r", "/open").ok());
  const grpc::Status status = InferInto("r", 12, [] {});
  EXPECT_EQ(status.error_code(), grpc::INTERNAL);
  EXPECT_THAT(status.error_message(), HasSubstr("at least 16 bytes"));
  EXPECT_EQ(files_.Get("/open"), "0123456789abcdef");
}

TEST_F(SharedRegionsTest, AKeptAnswerIsFoundByTheBytesAndWrittenToTheRegion) {
  server_.serving.SetCaching("digits", true);
  ASSERT_TRUE(Infer(lab_, RawRequest({1, 2, 3, 4})).ok());
  const std::vector<float> input = {1, 2, 3, 4};
  files_.Put("/open", std::string(reinterpret_cast<const char*>(input.data()),
                                  input.size() * sizeof(float)));
  ASSERT_TRUE(Register(lab_, "r", "/open").ok());
  inference::ModelInferRequest request = RawRequest({1, 2, 3, 4});
  request.clear_raw_input_contents();
  SetRegion("r", 16, request.mutable_inputs(0)->mutable_parameters());
  auto* output = request.add_outputs();
  output->set_name("output");
  SetRegion("r", 16, output->mutable_parameters());
  server_.worker.Pause();  // nobody computes
  const grpc::Status status = Infer(lab_, request);
  server_.worker.Resume();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(Values(), ElementsAre(2, 4, 6, 8));
  // The region has other bytes now.
  ASSERT_TRUE(Infer(lab_, request).ok());
  EXPECT_THAT(Values(), ElementsAre(4, 8, 12, 16));
}

TEST_F(SharedRegionsTest, CopiesOfRegionsCountAsBytesInFlight) {
  files_.Put("/open", std::string(4 << 20, '\0'));
  grpc::ClientContext context;
  context.AddMetadata("authorization", lab_);
  inference::SystemSharedMemoryRegisterRequest region;
  region.set_name("r");
  region.set_key("/open");
  region.set_byte_size(4 << 20);
  inference::SystemSharedMemoryRegisterResponse response;
  ASSERT_TRUE(
      server_.stub->SystemSharedMemoryRegister(&context, region, &response)
          .ok());
  inference::ModelInferRequest request = RawRequest({1, 2});
  request.clear_raw_input_contents();
  SetRegion("r", 4 << 20, request.mutable_inputs(0)->mutable_parameters());
  EXPECT_EQ(Infer(lab_, request).error_code(), grpc::RESOURCE_EXHAUSTED);
}

TEST_F(SharedRegionsTest, AStreamUsesRegions) {
  ASSERT_TRUE(Register(lab_, "r", "/open").ok());
  inference::ModelInferRequest request = RawRequest({1, 2, 3, 4});
  auto* output = request.add_outputs();
  output->set_name("output");
  SetRegion("r", 16, output->mutable_parameters());
  grpc::ClientContext context;
  context.AddMetadata("authorization", lab_);
  const auto stream = server_.stub->ModelStreamInfer(&context);
  ASSERT_TRUE(stream->Write(request));
  stream->WritesDone();
  inference::ModelStreamInferResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(answer.error_message(), "");
  EXPECT_THAT(Values(), ElementsAre(2, 4, 6, 8));
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(SharedRegionsTest, ThereIsNoSharedMemoryOfCuda) {
  grpc::ClientContext all;
  inference::CudaSharedMemoryUnregisterResponse unregistered;
  EXPECT_TRUE(server_.stub
                  ->CudaSharedMemoryUnregister(
                      &all, inference::CudaSharedMemoryUnregisterRequest(),
                      &unregistered)
                  .ok());
  grpc::ClientContext status;
  inference::CudaSharedMemoryStatusResponse regions;
  EXPECT_TRUE(
      server_.stub
          ->CudaSharedMemoryStatus(
              &status, inference::CudaSharedMemoryStatusRequest(), &regions)
          .ok());
  EXPECT_TRUE(regions.regions().empty());
  grpc::ClientContext one;
  inference::CudaSharedMemoryRegisterResponse registered;
  EXPECT_EQ(
      server_.stub
          ->CudaSharedMemoryRegister(
              &one, inference::CudaSharedMemoryRegisterRequest(), &registered)
          .error_code(),
      grpc::UNIMPLEMENTED);
}

TEST_F(SharedRegionsTest, TheExtensionIsAnnounced) {
  grpc::ClientContext context;
  inference::ServerMetadataResponse metadata;
  ASSERT_TRUE(server_.stub
                  ->ServerMetadata(&context, inference::ServerMetadataRequest(),
                                   &metadata)
                  .ok());
  EXPECT_THAT(metadata.extensions(), Contains("system_shared_memory"));
}

TEST_F(SharedRegionsTest, TheUserOfAConnectionHasItsPrivateFiles) {
  const grpc::Status status = Register(lab_, "r", "/private");
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(SharedRegionsTest, AnotherUserHasOnlyFilesThatAreOpenToAll) {
  server_.guard->SetUser({.uid = ::geteuid() + 1});
  EXPECT_EQ(Register(lab_, "r", "/private").error_code(), grpc::NOT_FOUND);
  EXPECT_TRUE(Register(lab_, "r", "/open").ok());
  EXPECT_TRUE(InferFrom(lab_, "r").ok());
}

TEST_F(SharedRegionsTest, ACallerWhoseUserIsNotKnownIsRefused) {
  server_.guard->SetUser({});
  const grpc::Status status = Register(lab_, "r", "/open");
  EXPECT_EQ(status.error_code(), grpc::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), HasSubstr("send tensors in the request"));
  EXPECT_EQ(InferFrom(lab_, "r").error_code(), grpc::PERMISSION_DENIED);
}

TEST_F(SharedRegionsTest, ADecoupledModelReadsInputsAndWritesNoOutputs) {
  server_.serving.VersionReady(LoopVersion(), "cpu:0");
  files_.Put("/open", std::string("\0\0\x80\x3f\0\0\0\x40", 8));
  ASSERT_TRUE(Register(lab_, "r", "/open", 8).ok());
  inference::ModelInferRequest request = LoopRequest({1, 2});
  request.clear_raw_input_contents();
  SetRegion("r", 8, request.mutable_inputs(0)->mutable_parameters());
  EXPECT_EQ(FirstOfStream(request), "");
  auto* output = request.add_outputs();
  output->set_name("output");
  SetRegion("r", 8, output->mutable_parameters());
  EXPECT_THAT(FirstOfStream(request),
              HasSubstr("'loop' version 1, which is decoupled"));
}

}  // namespace
}  // namespace gpupool::server
