#include "server/api/api_server.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include "engine/base/sha256.h"
#include "gpupool/v1/admin.grpc.pb.h"
#include "gpupool/v1/dataset.grpc.pb.h"
#include "gpupool/v1/device.grpc.pb.h"
#include "gpupool/v1/job.grpc.pb.h"
#include "gpupool/v1/model.grpc.pb.h"
#include "tests/server/api/api_fixture.h"
#include "tests/tls/test_authority.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class ApiServerTest : public ApiFixture {
 protected:
  grpc::Status Submit(const v1::SubmitJobRequest& request, v1::Job* job) {
    grpc::ClientContext context;
    return v1::JobService::NewStub(channel_)->SubmitJob(&context, request, job);
  }

  grpc::Status Upload(const std::string& name, const std::string& announced,
                      const std::string& sent, v1::Dataset* dataset) {
    grpc::ClientContext context;
    auto stub = v1::DatasetService::NewStub(channel_);
    auto writer = stub->UploadDataset(&context, dataset);
    v1::UploadDatasetRequest message;
    auto* header = message.mutable_header();
    header->set_name(name);
    v1::DatasetFile* file = header->add_files();
    file->set_file_name("d.csv");
    file->set_total_bytes(announced.size());
    file->set_sha256(engine::Sha256Hex(announced));
    bool open = writer->Write(message);
    for (size_t at = 0; open && at < sent.size(); at += 1 << 20) {
      message.mutable_chunk()->set_data(sent.substr(at, 1 << 20));
      open = writer->Write(message);
    }
    writer->WritesDone();
    return writer->Finish();
  }
};

// The endpoint of ApiServerTest, which requires certificates of clients.
class TlsApiServerTest : public ApiServerTest {
 protected:
  ApiOptions Options() const override {
    ApiOptions options = ApiServerTest::Options();
    options.tls = authority_.Server("127.0.0.1");
    options.tls.client_ca = authority_.ca();
    return options;
  }

  // Returns a channel of a client with this certificate.
  std::shared_ptr<grpc::Channel> ChannelWith(const tls::TlsFiles& client) {
    return grpc::CreateChannel(
        "127.0.0.1:" + std::to_string(api_->port()),
        grpc::SslCredentials({authority_.own().certificate,
                              tls::TextOfFile(client.key),
                              tls::TextOfFile(client.certificate)}));
  }

  static grpc::Status Info(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    v1::ServerInfo info;
    return v1::AdminService::NewStub(channel)->GetServerInfo(&context, {},
                                                             &info);
  }

  const tls::TestAuthority authority_;
};

// Sends one message as bytes and returns the bytes of the first answer, for
// services whose generated code is not installed.
std::string CallWithBytes(const std::shared_ptr<grpc::Channel>& channel,
                          const std::string& method,
                          const std::string& request) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool ok = false;
  auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  const grpc::Slice slice(request);
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  queue.Next(&tag, &ok);
  grpc::Slice bytes;
  if (ok) ok = answer.DumpToSingleSlice(&bytes).ok();
  context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return std::string(bytes.begin(), bytes.end());
}

TEST_F(ApiServerTest, HealthFollowsSetServing) {
  // HealthCheckResponse.status is field 1: SERVING = 1, NOT_SERVING = 2.
  const std::string check = "/grpc.health.v1.Health/Check";
  EXPECT_EQ(CallWithBytes(channel_, check, ""), std::string("\x08\x01"));
  api_->SetServing(false);
  EXPECT_EQ(CallWithBytes(channel_, check, ""), std::string("\x08\x02"));
}

// HealthCheckRequest.service is field 1.
TEST_F(ApiServerTest, EachServiceHasItsHealthByName) {
  const std::string check = "/grpc.health.v1.Health/Check";
  const auto health_of = [&](const std::string& service) {
    return CallWithBytes(
        channel_, check,
        std::string("\x0a") + static_cast<char>(service.size()) + service);
  };
  for (const char* service :
       {"JobService", "ModelService", "DatasetService", "DeviceService",
        "AdminService", "UsageService", "UploadService", "ReservationService",
        "AuthService"}) {
    EXPECT_EQ(health_of(std::string("gpupool.v1.") + service),
              std::string("\x08\x01"))
        << service;
  }
  EXPECT_EQ(health_of("gpupool.v1.NoService"), "") << "an error";
  api_->SetServing(false);
  EXPECT_EQ(health_of("gpupool.v1.JobService"), std::string("\x08\x02"));
}

TEST_F(ApiServerTest, ReflectionListsTheServices) {
  // ServerReflectionRequest.list_services is field 7.
  const std::string answer = CallWithBytes(
      channel_,
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      std::string("\x3a\x00", 2));
  for (const char* service : {"JobService", "ModelService", "DatasetService",
                              "DeviceService", "AdminService"}) {
    EXPECT_THAT(answer, HasSubstr(std::string("gpupool.v1.") + service));
  }
}

TEST_F(ApiServerTest, BadRequestNeverReachesControl) {
  v1::SubmitJobRequest request = NewJob("x");
  request.mutable_spec()->set_name("../etc");
  v1::Job job;
  const grpc::Status status = Submit(request, &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("../etc"));
}

TEST_F(ApiServerTest, SameRequestIsTheSameJobAndAnotherSpecIsRefused) {
  AddDataset();
  v1::Job first;
  v1::Job again;
  ASSERT_TRUE(Submit(NewJob("one"), &first).ok());
  ASSERT_TRUE(Submit(NewJob("one"), &again).ok());
  EXPECT_EQ(first.id(), again.id());
  v1::SubmitJobRequest other = NewJob("one");
  other.mutable_spec()->set_name("other");
  EXPECT_EQ(Submit(other, &again).error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(ApiServerTest, JobThatWasAnsweredIsInTheStore) {
  AddDataset();
  v1::Job job;
  ASSERT_TRUE(Submit(NewJob("one"), &job).ok());
  EXPECT_TRUE(store_->GetJob(job.id()).ok());
  auto stub = v1::JobService::NewStub(channel_);
  v1::GetJobRequest get;
  get.set_id(job.id());
  v1::Job found;
  grpc::ClientContext context;
  ASSERT_TRUE(stub->GetJob(&context, get, &found).ok());
  EXPECT_EQ(found.spec().tenant(), "default");
  v1::ListJobsRequest list;
  v1::ListJobsResponse jobs;
  grpc::ClientContext list_context;
  ASSERT_TRUE(stub->ListJobs(&list_context, list, &jobs).ok());
  EXPECT_EQ(jobs.jobs_size(), 1);
}

TEST_F(ApiServerTest, DatasetArrivesInChunksAndIsRegistered) {
  const std::string bytes((3 << 20) + 17, '7');
  v1::Dataset dataset;
  const grpc::Status status = Upload("digits", bytes, bytes, &dataset);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(dataset.rows(), 10u);
  EXPECT_EQ(dataset.layout().format(), v1::CSV);
  EXPECT_TRUE(blobs_->Contains(engine::Sha256Hex(bytes)));
}

TEST_F(ApiServerTest, ListsOfDatasetsLeaveOutTheirDescriptions) {
  v1::Dataset dataset;
  ASSERT_TRUE(Upload("digits", "1,2\n", "1,2\n", &dataset).ok());
  EXPECT_EQ(dataset.description().dropped_rows(), 3u);
  auto stub = v1::DatasetService::NewStub(channel_);
  grpc::ClientContext get_context, list_context;
  v1::GetDatasetRequest request;
  request.set_name("digits");
  v1::Dataset one;
  ASSERT_TRUE(stub->GetDataset(&get_context, request, &one).ok());
  EXPECT_EQ(one.description().dropped_rows(), 3u);
  v1::ListDatasetsResponse all;
  ASSERT_TRUE(stub->ListDatasets(&list_context, {}, &all).ok());
  ASSERT_EQ(all.datasets_size(), 1);
  EXPECT_EQ(all.datasets(0).rows(), 10u);
  EXPECT_FALSE(all.datasets(0).has_description());
}

TEST_F(ApiServerTest, SameDatasetAgainIsANoOpAndOtherContentIsRefused) {
  v1::Dataset first;
  ASSERT_TRUE(Upload("digits", "1,2\n", "1,2\n", &first).ok());
  v1::Dataset again;
  ASSERT_TRUE(Upload("digits", "1,2\n", "1,2\n", &again).ok());
  EXPECT_EQ(first.id(), again.id());
  EXPECT_EQ(Upload("digits", "3,4\n", "3,4\n", &again).error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(ApiServerTest, WrongDigestStoresNothing) {
  v1::Dataset dataset;
  const grpc::Status status = Upload("digits", "1,2\n", "1,3\n", &dataset);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("sha256"));
  EXPECT_TRUE(absl::IsNotFound(store_->GetDataset("digits").status()));
}

TEST_F(ApiServerTest, UnknownModelIsNotFound) {
  grpc::ClientContext context;
  v1::GetModelRequest request;
  request.set_name("nobody");
  v1::Model model;
  EXPECT_EQ(v1::ModelService::NewStub(channel_)
                ->GetModel(&context, request, &model)
                .error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(ApiServerTest, MemorySummaryComesFromTheWorker) {
  grpc::ClientContext context;
  v1::GetMemorySummaryRequest request;
  request.set_device("cpu:0");
  v1::GetMemorySummaryResponse response;
  const grpc::Status status =
      v1::DeviceService::NewStub(channel_)->GetMemorySummary(&context, request,
                                                             &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.text(), "a table");
}

TEST_F(ApiServerTest, ADeviceThatWasNotMeasuredHasNoResult) {
  const auto stub = v1::DeviceService::NewStub(channel_);
  v1::GetDeviceBenchRequest request;
  v1::DeviceBench bench;
  request.set_device("cpu:0");
  grpc::ClientContext context;
  EXPECT_EQ(stub->GetDeviceBench(&context, request, &bench).error_code(),
            grpc::StatusCode::NOT_FOUND);
  request.set_device("cpu:0/../x");
  grpc::ClientContext bad_context;
  EXPECT_EQ(stub->GetDeviceBench(&bad_context, request, &bench).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ApiServerTest, WatchDevicesWritesAtOnceAndEndsWithTheServer) {
  grpc::ClientContext context;
  v1::WatchDevicesRequest request;
  request.set_interval_seconds(3600);
  auto stub = v1::DeviceService::NewStub(channel_);
  auto reader = stub->WatchDevices(&context, request);
  v1::ListDevicesResponse devices;
  ASSERT_TRUE(reader->Read(&devices));
  ASSERT_EQ(devices.devices_size(), 1);
  EXPECT_EQ(devices.devices(0).name(), "cpu:0");
  // With a grace this long, the test ends only if the watch ends by itself.
  api_->Stop(absl::Hours(1));
  EXPECT_FALSE(reader->Read(&devices));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ApiServerTest, WatchDevicesRefusesABadInterval) {
  grpc::ClientContext context;
  v1::WatchDevicesRequest request;
  request.set_interval_seconds(-1);
  auto stub = v1::DeviceService::NewStub(channel_);
  auto reader = stub->WatchDevices(&context, request);
  v1::ListDevicesResponse devices;
  EXPECT_FALSE(reader->Read(&devices));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ApiServerTest, DrainStopsAdmissionAndAsksTheProcessToEnd) {
  AddDataset();
  auto stub = v1::AdminService::NewStub(channel_);
  v1::DrainRequest request;
  v1::DrainResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(stub->Drain(&context, request, &response).ok());
  EXPECT_FALSE(stop_asked_.HasBeenNotified());
  v1::Job job;
  EXPECT_EQ(Submit(NewJob("late"), &job).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  request.set_stop(true);
  grpc::ClientContext stop_context;
  ASSERT_TRUE(stub->Drain(&stop_context, request, &response).ok());
  EXPECT_TRUE(stop_asked_.WaitForNotificationWithTimeout(kPatience));
}

TEST_F(ApiServerTest, ServerInfoIsTheProcesss) {
  grpc::ClientContext context;
  v1::ServerInfo info;
  ASSERT_TRUE(v1::AdminService::NewStub(channel_)
                  ->GetServerInfo(&context, {}, &info)
                  .ok());
  EXPECT_EQ(info.version(), "1.2.3");
  EXPECT_EQ(info.dataset_limit_bytes(), Options().limits.dataset_bytes);
  EXPECT_EQ(info.model_limit_bytes(), Options().limits.model_file_bytes);
}

TEST_F(TlsApiServerTest, ClientsNeedACertificate) {
  EXPECT_TRUE(Info(ChannelWith(authority_.Client("mia"))).ok());
  const tls::TestAuthority stranger;
  EXPECT_EQ(Info(ChannelWith(stranger.Client("eve"))).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Info(channel_).error_code(), grpc::StatusCode::UNAVAILABLE)
      << "a plain connection";
}

TEST_F(TlsApiServerTest, TheChannelInsideTheProcessNeedsNone) {
  EXPECT_TRUE(Info(api_->InProcessChannel()).ok());
  EXPECT_EQ(CallWithBytes(api_->InProcessChannel(),
                          "/grpc.health.v1.Health/Check", ""),
            std::string("\x08\x01", 2))
      << "SERVING";
}

TEST_F(ApiServerTest, TakenPortIsUnavailableAndNamed) {
  const auto second = ApiServer::Start(
      {.listen = "127.0.0.1", .port = api_->port()},
      {.control = &control_->context(), .blobs = blobs_.get()});
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr(std::to_string(api_->port())));
}

TEST_F(ApiServerTest, OversizedMessageIsRefused) {
  AddDataset();
  v1::SubmitJobRequest request = NewJob("big");
  request.mutable_spec()->mutable_model()->mutable_layers(0)->set_name(
      std::string(70 << 20, 'x'));
  v1::Job job;
  EXPECT_EQ(Submit(request, &job).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

// The limits of messages hold for the bytes that travel.
TEST_F(ApiServerTest, ACompressedMessageIsRefused) {
  v1::SubmitJobRequest request = NewJob("small");
  request.mutable_spec()->mutable_model()->mutable_layers(0)->set_name(
      std::string(1 << 20, 'x'));
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    v1::Job job;
    const grpc::Status status =
        v1::JobService::NewStub(channel_)->SubmitJob(&context, request, &job);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED)
        << status.error_message();
  }
}

TEST_F(ApiServerTest, TheChannelInsideTheProcessTakesLargeAnswers) {
  AddDataset();
  v1::SubmitJobRequest request = NewJob("large");
  request.mutable_spec()->set_hold(true);
  // gRPC's own limit for answers is 4 MiB.
  request.mutable_spec()
      ->mutable_training()
      ->mutable_cross_entropy()
      ->mutable_class_weights()
      ->Resize(600'000, 1.0);
  grpc::ClientContext context;
  v1::Job job;
  const grpc::Status status = v1::JobService::NewStub(api_->InProcessChannel())
                                  ->SubmitJob(&context, request, &job);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_GT(job.ByteSizeLong(), size_t{4} << 20);
}

}  // namespace
}  // namespace gpupool::server
