#include "server/control/models/dataset_requests.h"

#include <gmock/gmock.h>

#include "server/control/jobs/admission.h"
#include "server/store/store.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class DatasetRequestsTest : public ControlTest {
 protected:
  v1::Dataset Table(const std::string& name, const std::string& bytes) {
    v1::Dataset dataset;
    dataset.set_name(name);
    v1::DatasetFile& file = *dataset.add_files();
    file.set_role(v1::DatasetFile::TABLE);
    file.set_file_name("table.csv");
    file.set_sha256(*blobs->Put(bytes));
    return dataset;
  }
  absl::StatusOr<v1::Dataset> Register(const v1::Dataset& dataset) {
    Answer<v1::Dataset> answer;
    RegisterDataset(control(), dataset, answer.callback());
    return answer.Wait();
  }
  absl::Status Delete(const std::string& name) {
    Answer<v1::DeleteDatasetResponse> answer;
    DeleteDataset(control(), name, answer.callback());
    return answer.Wait().status();
  }
};

TEST_F(DatasetRequestsTest, ADatasetGetsTheFactsThatTheWorkerRead) {
  const auto dataset = Register(Table("digits", "1,2\n"));
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->id(), 1u);
  EXPECT_EQ(dataset->rows(), 10u);
  EXPECT_EQ(dataset->feature_shape(0), 4);
  EXPECT_EQ(FindDataset(*store, "digits")->rows(), 10u);
  EXPECT_EQ(store->ListDatasets({})->datasets_size(), 1);
}

TEST_F(DatasetRequestsTest, ANameOfAnotherTenantIsTaken) {
  v1::Dataset dataset = Table("digits", "1,2\n");
  dataset.set_tenant("a");
  EXPECT_EQ(Register(dataset)->tenant(), "a");
  EXPECT_TRUE(Register(dataset).ok()) << "repeated";
  dataset.set_tenant("b");
  const auto refused = Register(dataset);
  EXPECT_TRUE(absl::IsAlreadyExists(refused.status()));
  EXPECT_EQ(refused.status().message(),
            "the dataset name \"digits\" is taken on this server; choose "
            "another name");
}

TEST_F(DatasetRequestsTest, NamedArraysKeepTheirFacts) {
  workers->meta = [](const worker::v1::ToWorker&)
      -> absl::StatusOr<worker::v1::FromWorker> {
    worker::v1::FromWorker reply;
    reply.mutable_dataset()->set_rows(10);
    reply.mutable_dataset()->add_inputs()->set_name("ids");
    v1::DatasetArray* target = reply.mutable_dataset()->add_targets();
    target->set_name("y");
    target->mutable_facts()->set_maximum(3);
    reply.mutable_dataset()->mutable_description()->set_dropped_rows(5);
    return reply;
  };
  ASSERT_TRUE(Register(Table("texts", "1,2\n")).ok());
  const auto stored = FindDataset(*store, "texts");
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_EQ(stored->inputs(0).name(), "ids");
  EXPECT_EQ(stored->targets(0).facts().maximum(), 3);
  EXPECT_FALSE(stored->has_labels());
  EXPECT_EQ(stored->description().dropped_rows(), 5u);
}

TEST_F(DatasetRequestsTest, TheSameContentAgainIsANoOpOtherContentIsRefused) {
  ASSERT_TRUE(Register(Table("digits", "1,2\n")).ok());
  EXPECT_EQ(Register(Table("digits", "1,2\n"))->id(), 1u);
  EXPECT_TRUE(
      absl::IsAlreadyExists(Register(Table("digits", "9,9\n")).status()));
}

TEST_F(DatasetRequestsTest, TwoAtTheSameTimeMakeOne) {
  std::vector<Answer<v1::Dataset>> answers(20);
  for (auto& answer : answers) {
    RegisterDataset(control(), Table("digits", "1,2\n"), answer.callback());
  }
  for (auto& answer : answers) EXPECT_EQ(answer.Wait()->id(), 1u);
}

TEST_F(DatasetRequestsTest, ABrokenLineIsToldInTheWorkersWords) {
  workers->meta = [](const worker::v1::ToWorker&) {
    return absl::InvalidArgumentError(
        "table.csv: line 17, column 3: \"x\" is not a number");
  };
  const auto status = Register(Table("digits", "1,x\n")).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("line 17, column 3"));
  EXPECT_TRUE(absl::IsNotFound(FindDataset(*store, "digits").status()));
}

TEST_F(DatasetRequestsTest, BytesThatVanishedMeanwhileAreNoticed) {
  v1::Dataset dataset = Table("digits", "1,2\n");
  dataset.mutable_files(0)->set_sha256(std::string(64, '0'));
  EXPECT_TRUE(absl::IsUnavailable(Register(dataset).status()));
}

TEST_F(DatasetRequestsTest, ADatasetInUseIsNotDeleted) {
  AddDataset("digits");
  ASSERT_TRUE(Submit(Request("r1")).ok());
  const absl::Status status = Delete("digits");
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("used by job 1"));
  Answer<v1::Job> cancelled;
  CancelJob(control(), 1, cancelled.callback());
  ASSERT_TRUE(cancelled.Wait().ok());
  EXPECT_TRUE(Delete("digits").ok());
  EXPECT_TRUE(absl::IsNotFound(Delete("digits")));
}

TEST_F(DatasetRequestsTest, BytesGoWithTheLastDatasetThatHasThem) {
  const std::string digest = *blobs->Put("1,2\n");
  ASSERT_TRUE(Register(Table("one", "1,2\n")).ok());
  ASSERT_TRUE(Register(Table("two", "1,2\n")).ok());
  ASSERT_TRUE(Delete("one").ok());
  EXPECT_TRUE(blobs->Contains(digest));
  ASSERT_TRUE(Delete("two").ok());
  EXPECT_FALSE(blobs->Contains(digest));
}

}  // namespace
}  // namespace gpupool::server
