#include "server/api/rpc/tenant_access.h"

#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/sha256.h"
#include "gpupool/v1/dataset.grpc.pb.h"
#include "gpupool/v1/job.grpc.pb.h"
#include "gpupool/v1/model.grpc.pb.h"
#include "gpupool/v1/upload.grpc.pb.h"
#include "tests/server/api/services/token_fixture.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;
using ModelStub = v1::ModelService::Stub;
using DatasetStub = v1::DatasetService::Stub;

// Two tenants, of which "a" has the model "net" and the dataset "rows". The
// dataset "digits" belongs to nobody.
class TenantAccessTest : public TokenFixture {
 protected:
  using Calls = std::map<std::string,
                         std::function<grpc::Status(const std::string& header,
                                                    const std::string& name)>>;

  void SetUp() override {
    TokenFixture::SetUp();
    models_ = v1::ModelService::NewStub(channel_);
    datasets_ = v1::DatasetService::NewStub(channel_);
    jobs_ = v1::JobService::NewStub(channel_);
    AddDataset();
    a_ = HeaderOf("a", v1::USER);
    b_ = HeaderOf("b", v1::USER);
    operator_ = HeaderOf("", v1::OPERATOR);
    ASSERT_TRUE(UploadModel(a_, "net").ok());
    ASSERT_TRUE(UploadDataset(a_, "rows").ok());
  }

  grpc::Status UploadModel(const std::string& header, const std::string& name) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", header);
    const auto writer = models_->UploadModel(&context, &version_);
    v1::UploadModelRequest message;
    message.mutable_header()->set_name(name);
    auto* onnx = message.mutable_header()->mutable_spec()->mutable_onnx();
    onnx->set_sha256(engine::Sha256Hex("m"));
    onnx->set_bytes(1);
    writer->Write(message);
    writer->WritesDone();
    return writer->Finish();
  }

  v1::UploadDatasetRequest HeaderOfDataset(const std::string& name) {
    v1::UploadDatasetRequest message;
    message.mutable_header()->set_name(name);
    v1::DatasetFile* file = message.mutable_header()->add_files();
    file->set_role(v1::DatasetFile::TABLE);
    file->set_file_name("rows.csv");
    file->set_total_bytes(4);
    file->set_sha256(engine::Sha256Hex("1,2\n"));
    return message;
  }

  grpc::Status UploadDataset(const std::string& header,
                             const std::string& name) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", header);
    const auto writer = datasets_->UploadDataset(&context, &dataset_);
    v1::UploadDatasetRequest message = HeaderOfDataset(name);
    writer->Write(message);
    message.mutable_chunk()->set_data("1,2\n");
    writer->Write(message);
    writer->WritesDone();
    return writer->Finish();
  }

  grpc::Status Submit(const std::string& header, const std::string& dataset,
                      const std::string& publishes = {}) {
    v1::SubmitJobRequest request = NewJob(std::to_string(++submitted_));
    request.mutable_spec()->mutable_data()->set_dataset(dataset);
    if (!publishes.empty()) {
      request.mutable_spec()->mutable_publish()->set_on_success(true);
      request.mutable_spec()->mutable_publish()->set_model(publishes);
    }
    v1::Job job;
    return As(header).Call(*jobs_, &v1::JobService::Stub::SubmitJob, request,
                           &job);
  }

  grpc::Status Share(const std::string& header, const std::string& name,
                     bool off = false) {
    v1::ShareModelRequest request;
    request.set_name(name);
    request.set_off(off);
    return As(header).Call(*models_, &ModelStub::ShareModel, request, &model_);
  }

  // Makes a call of a model by its name.
  template <typename Request, typename Response>
  grpc::Status OfModel(const std::string& header, const std::string& name,
                       grpc::Status (ModelStub::*method)(grpc::ClientContext*,
                                                         const Request&,
                                                         Response*)) {
    Request request;
    request.set_model(name);
    request.set_version(1);
    Response response;
    return As(header).Call(*models_, method, request, &response);
  }

  template <typename Reader, typename Response>
  static grpc::Status StatusOf(Reader reader, Response response) {
    while (reader->Read(&response)) continue;
    return reader->Finish();
  }

  grpc::Status Get(const std::string& header, const std::string& name) {
    v1::GetModelRequest request;
    request.set_name(name);
    return As(header).Call(*models_, &ModelStub::GetModel, request, &model_);
  }

  grpc::Status Export(const std::string& header, const std::string& name) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", header);
    v1::ExportModelRequest request;
    request.set_model(name);
    request.set_format(v1::ExportModelRequest::ONNX);
    return StatusOf(models_->ExportModel(&context, request),
                    v1::ExportModelResponse());
  }

  grpc::Status Profile(const std::string& header, const std::string& name) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", header);
    v1::ProfileModelRequest request;
    request.set_model(name);
    return StatusOf(models_->ProfileModel(&context, request),
                    v1::ProfileModelResponse());
  }

  // Returns all calls that only read a model.
  Calls Readers() {
    return {
        {"GetModel", [this](auto& who, auto& name) { return Get(who, name); }},
        {"ExportModel",
         [this](auto& who, auto& name) { return Export(who, name); }},
        {"ProfileModel",
         [this](auto& who, auto& name) { return Profile(who, name); }}};
  }

  // Returns all calls that change a model.
  Calls Changers() {
    return {
        {"ShareModel",
         [this](auto& who, auto& name) { return Share(who, name); }},
        {"LoadVersion",
         [this](auto& who, auto& name) {
           return OfModel(who, name, &ModelStub::LoadVersion);
         }},
        {"UnloadVersion",
         [this](auto& who, auto& name) {
           return OfModel(who, name, &ModelStub::UnloadVersion);
         }},
        {"DeleteVersion",
         [this](auto& who, auto& name) {
           return OfModel(who, name, &ModelStub::DeleteVersion);
         }},
    };
  }

  // Returns all calls that name a dataset.
  Calls DatasetCalls() {
    return {{"GetDataset",
             [this](auto& who, auto& name) {
               v1::GetDatasetRequest request;
               request.set_name(name);
               return As(who).Call(*datasets_, &DatasetStub::GetDataset,
                                   request, &dataset_);
             }},
            {"DeleteDataset",
             [this](auto& who, auto& name) {
               v1::DeleteDatasetRequest request;
               request.set_name(name);
               v1::DeleteDatasetResponse response;
               return As(who).Call(*datasets_, &DatasetStub::DeleteDataset,
                                   request, &response);
             }},
            {"SubmitJob",
             [this](auto& who, auto& name) { return Submit(who, name); }}};
  }

  // Expects that "b" gets the same answer for `name` as for no name at all.
  void ExpectHidden(const Calls& calls, const std::string& name) {
    for (const auto& [method, call] : calls) {
      const grpc::Status of_other = call(b_, name);
      std::string none = call(b_, "void").error_message();
      EXPECT_EQ(of_other.error_code(), grpc::NOT_FOUND) << method;
      const size_t at = none.find("void");
      ASSERT_NE(at, std::string::npos) << method << ": " << none;
      EXPECT_EQ(of_other.error_message(), none.replace(at, 4, name)) << method;
    }
  }

  std::vector<std::string> ModelsOf(const std::string& header, int page) {
    std::vector<std::string> names;
    v1::ListModelsRequest request;
    request.set_page_size(page);
    do {
      v1::ListModelsResponse list;
      EXPECT_TRUE(As(header)
                      .Call(*models_, &ModelStub::ListModels, request, &list)
                      .ok());
      EXPECT_LE(list.models_size(), page);
      for (const auto& model : list.models()) names.push_back(model.name());
      request.set_page_token(list.next_page_token());
    } while (!request.page_token().empty());
    return names;
  }

  std::unique_ptr<ModelStub> models_;
  std::unique_ptr<DatasetStub> datasets_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::string a_, b_, operator_;
  v1::Model model_;
  v1::ModelVersion version_;
  v1::Dataset dataset_;
  int submitted_ = 0;
};

TEST_F(TenantAccessTest, UploadsBelongToTheTenantOfTheToken) {
  EXPECT_EQ(version_.tenant(), "a");
  EXPECT_EQ(dataset_.tenant(), "a");
  EXPECT_EQ(store_->GetVersion("net", 0)->tenant(), "a");
  EXPECT_EQ(store_->GetDataset("rows")->tenant(), "a");
  ASSERT_TRUE(UploadModel(operator_, "ours").ok());
  EXPECT_EQ(version_.tenant(), "");
}

TEST_F(TenantAccessTest, ANameOfAnotherTenantLooksLikeNone) {
  ExpectHidden(Readers(), "net");
  ExpectHidden(Changers(), "net");
  ExpectHidden(DatasetCalls(), "rows");
}

TEST_F(TenantAccessTest, TheOwnerAndAnOperatorHaveTheName) {
  for (const std::string& header : {a_, operator_}) {
    EXPECT_TRUE(Get(header, "net").ok());
    EXPECT_TRUE(DatasetCalls()["GetDataset"](header, "rows").ok());
    EXPECT_TRUE(Submit(header, "rows").ok());
  }
}

TEST_F(TenantAccessTest, ATakenNameSaysNoMore) {
  const grpc::Status model = UploadModel(b_, "net");
  EXPECT_EQ(model.error_code(), grpc::ALREADY_EXISTS);
  EXPECT_EQ(model.error_message(),
            "the model name \"net\" is taken on this server; choose another "
            "name");
  const grpc::Status dataset = UploadDataset(b_, "rows");
  EXPECT_EQ(dataset.error_code(), grpc::ALREADY_EXISTS)
      << "also for equal bytes: the answer would tell of them";
  EXPECT_THAT(dataset.error_message(), HasSubstr("is taken"));
  EXPECT_EQ(Submit(b_, "digits", "net").error_code(), grpc::ALREADY_EXISTS);
  EXPECT_TRUE(Submit(a_, "digits", "net").ok());
}

TEST_F(TenantAccessTest, ASharedModelIsReadByAllAndChangedByItsTenant) {
  EXPECT_EQ(Share(b_, "net").error_code(), grpc::NOT_FOUND);
  ASSERT_TRUE(Share(a_, "net").ok());
  EXPECT_TRUE(model_.shared());
  EXPECT_TRUE(Get(b_, "net").ok());
  for (const auto& [method, call] : Changers()) {
    EXPECT_EQ(call(b_, "net").error_code(), grpc::PERMISSION_DENIED) << method;
  }
  EXPECT_EQ(UploadModel(b_, "net").error_code(), grpc::ALREADY_EXISTS);
  ASSERT_TRUE(UploadModel(a_, "net").ok());
  EXPECT_TRUE(version_.shared()) << "a later version, too";
  ASSERT_TRUE(Share(a_, "net", /*off=*/true).ok());
  ExpectHidden(Readers(), "net");
}

TEST_F(TenantAccessTest, WhatHasNoTenantIsEverybodys) {
  ASSERT_TRUE(UploadModel(operator_, "ours").ok());
  EXPECT_TRUE(Get(b_, "ours").ok());
  EXPECT_EQ(Share(b_, "ours").error_code(), grpc::FAILED_PRECONDITION);
  ASSERT_TRUE(UploadModel(b_, "ours").ok());
  EXPECT_EQ(version_.tenant(), "")
      << "a version belongs to whom the model does";
  EXPECT_TRUE(Submit(b_, "digits").ok());
}

TEST_F(TenantAccessTest, PagesHaveWhatTheCallerMaySee) {
  ASSERT_TRUE(UploadModel(b_, "alpha").ok());
  ASSERT_TRUE(UploadModel(a_, "beta").ok());
  ASSERT_TRUE(UploadModel(b_, "zeta").ok());
  for (const int page : {1, 2, 100}) {
    EXPECT_THAT(ModelsOf(b_, page), ::testing::ElementsAre("alpha", "zeta"));
    EXPECT_THAT(ModelsOf(a_, page), ::testing::ElementsAre("beta", "net"));
    EXPECT_EQ(ModelsOf(operator_, page).size(), 4u);
  }
  v1::ListDatasetsResponse list;
  ASSERT_TRUE(As(b_)
                  .Call(*datasets_, &DatasetStub::ListDatasets,
                        v1::ListDatasetsRequest(), &list)
                  .ok());
  ASSERT_EQ(list.datasets_size(), 1);
  EXPECT_EQ(list.datasets(0).name(), "digits");
}

TEST_F(TenantAccessTest, AKeptUploadIsItsTenantsAlone) {
  const auto uploads = v1::UploadService::NewStub(channel_);
  v1::GetUploadRequest request;
  request.set_upload_key(std::string(32, '1'));
  v1::Upload upload;
  const auto find = [&](const std::string& header) {
    return As(header).Call(*uploads, &v1::UploadService::Stub::GetUpload,
                           request, &upload);
  };
  grpc::ClientContext context;
  context.AddMetadata("authorization", a_);
  const auto writer = datasets_->UploadDataset(&context, &dataset_);
  v1::UploadDatasetRequest message = HeaderOfDataset("more");
  message.mutable_header()->add_parts()->set_upload_key(request.upload_key());
  writer->Write(message);
  message.mutable_chunk()->set_data("1,");
  writer->Write(message);
  ASSERT_TRUE(WaitUntil([&] { return find(a_).ok() && upload.bytes() == 2; }));
  EXPECT_EQ(upload.upload_key(), request.upload_key());
  EXPECT_EQ(find(b_).error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(find(operator_).error_code(), grpc::NOT_FOUND);
  context.TryCancel();
  writer->Finish();
}

// Tenant "a" has 4 bytes and may have 5.
class TenantLimitTest : public TenantAccessTest {
 protected:
  scheduler::TenantShares Tenants() const override {
    scheduler::TenantShares shares;
    shares["a"].most_stored_bytes = 5;
    return shares;
  }

  // Announces a file of a model.
  grpc::Status Announce(const std::string& header, uint64_t bytes) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", header);
    v1::ModelFile file;
    const auto writer = models_->UploadModelFile(&context, &file);
    v1::UploadModelFileRequest message;
    message.mutable_header()->set_total_bytes(bytes);
    message.mutable_header()->set_sha256(engine::Sha256Hex("x"));
    writer->Write(message);
    writer->WritesDone();
    return writer->Finish();
  }
};

TEST_F(TenantLimitTest, AnUploadWithoutRoomIsRefusedAtItsHeader) {
  const grpc::Status refused = UploadDataset(a_, "more");
  EXPECT_EQ(refused.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(),
              HasSubstr("tenant \"a\" stores 4 bytes of data sets, models and "
                        "uploads, may store 5, and asks for 4 more"));
  EXPECT_TRUE(UploadDataset(a_, "rows").ok()) << "it is there";
  EXPECT_TRUE(UploadDataset(b_, "more").ok());
  EXPECT_EQ(Announce(a_, 2).error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Announce(a_, 1).error_code(), grpc::INVALID_ARGUMENT)
      << "no byte came";
}

TEST(TenantUploadKeyTest, TenantsHaveKeysOfTheirOwn) {
  const std::string key(32, '1');
  EXPECT_EQ(TenantUploadKey("", key), key);
  EXPECT_EQ(TenantUploadKey("a", ""), "");
  EXPECT_NE(TenantUploadKey("a", key), TenantUploadKey("b", key));
  EXPECT_EQ(TenantUploadKey("a", key).size(), 64u);
}

}  // namespace
}  // namespace gpupool::server
