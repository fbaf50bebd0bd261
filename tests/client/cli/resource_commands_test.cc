// datasets, models, devices, admin, version: verbs about the server's objects.
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/client/cli/command_test_base.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using DatasetsTest = CommandTest;

TEST_F(DatasetsTest, UploadsListsGetsAndDeletes) {
  const std::string file = WriteFile("a.csv", "h1,h2\n1,2\n");
  EXPECT_EQ(Run({"datasets", "upload", "a", file, "--header", "--format", "csv",
                 "--label-column", "-2"}),
            0);
  {
    absl::MutexLock lock(&server_.state.mutex);
    const v1::DatasetLayout& layout = server_.state.datasets["a"].layout();
    EXPECT_TRUE(layout.has_header());
    EXPECT_EQ(layout.format(), v1::CSV);
    EXPECT_EQ(layout.label_column(), -2);
  }
  EXPECT_EQ(Run({"datasets", "list", "--no-headers"}), 0);
  EXPECT_EQ(out(), "a\tCSV\t1797\t-\t1\t-\t10 B\t-\n");
  EXPECT_EQ(Run({"datasets", "get", "a", "-o", "json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out())["rows"], "1797");
  EXPECT_EQ(Run({"datasets", "delete", "a"}), 0);
  EXPECT_EQ(Run({"datasets", "get", "a"}), 3);
}

TEST_F(DatasetsTest, LabelsOfSeveralColumnsGoByNumberOrByName) {
  const std::string file = WriteFile("a.csv", "h1,h2,h3\n1,2,3\n");
  EXPECT_EQ(Run({"datasets", "upload", "a", file, "--label-columns", "0,-1"}),
            0);
  EXPECT_EQ(Run({"datasets", "upload", "b", file, "--header", "--label-columns",
                 "h3,1"}),
            0);
  EXPECT_NE(Run({"datasets", "upload", "c", file, "--label-column", "0",
                 "--label-columns", "1,2"}),
            0);
  absl::MutexLock lock(&server_.state.mutex);
  const v1::DatasetLayout& numbers = server_.state.datasets["a"].layout();
  EXPECT_THAT(numbers.label_columns(), ::testing::ElementsAre(0, -1));
  const v1::DatasetLayout& names = server_.state.datasets["b"].layout();
  EXPECT_TRUE(names.label_columns().empty());
  EXPECT_THAT(names.label_names(), ::testing::ElementsAre("h3", "1"));
}

TEST_F(DatasetsTest, OptionsForCsvReachTheServer) {
  const std::string file = WriteFile("a.csv", "h1,h2,h3\n1,2,3\n");
  EXPECT_EQ(Run({"datasets", "upload", "a", file, "--header", "--missing",
                 "drop-row", "--text", "one-hot", "--text-columns", "h1,h2",
                 "--skip-columns", "0"}),
            0)
      << err();
  EXPECT_EQ(Run({"datasets", "upload", "b", file, "--header", "--missing",
                 "refuse", "--text", "index"}),
            0)
      << err();
  {
    absl::MutexLock lock(&server_.state.mutex);
    const v1::DatasetLayout& layout = server_.state.datasets["a"].layout();
    EXPECT_EQ(layout.missing(), v1::DatasetLayout::DROP_ROW);
    EXPECT_EQ(layout.text(), v1::DatasetLayout::ONE_HOT);
    EXPECT_THAT(layout.text_columns(), ::testing::ElementsAre("h1", "h2"));
    EXPECT_THAT(layout.skipped_columns(), ::testing::ElementsAre("0"));
    const v1::DatasetLayout& defaults = server_.state.datasets["b"].layout();
    EXPECT_EQ(defaults.missing(), v1::DatasetLayout::MISSING_UNSPECIFIED);
    EXPECT_EQ(defaults.text(), v1::DatasetLayout::TEXT_UNSPECIFIED);
  }
  EXPECT_EQ(Run({"datasets", "upload", "c", file, "--missing", "median"}), 2);
}

TEST_F(DatasetsTest, ATokenizerIsAFileOfTheDataset) {
  const std::string text = WriteFile("a.txt", "the cat\n");
  const std::string model = WriteFile("a.model", "pieces");
  EXPECT_EQ(Run({"datasets", "upload", "a", text, "--tokenizer", model}), 0)
      << err();
  EXPECT_NE(Run({"datasets", "upload", "b", text, "--tokenizer", model,
                 "--tokens", text}),
            0);
  EXPECT_EQ(Run({"datasets", "upload", "c", text, "--like", "a"}), 2);
  EXPECT_THAT(err(), HasSubstr("a.model; give it with --tokenizer FILE"));
  EXPECT_EQ(Run({"datasets", "upload", "d", text, "--like", "a", "--tokenizer",
                 model}),
            0)
      << err();
  absl::MutexLock lock(&server_.state.mutex);
  const v1::Dataset& stored = server_.state.datasets["a"];
  ASSERT_EQ(stored.files_size(), 2);
  EXPECT_EQ(stored.files(1).role(), v1::DatasetFile::TOKENIZER);
}

TEST_F(DatasetsTest, OptionsForTextReachTheServer) {
  const std::string text = WriteFile("a.txt", "the cat\n");
  const std::string tokens = WriteFile("tokens", "the\ncat\n");
  EXPECT_EQ(Run({"datasets", "upload", "a", text, "--tokens", tokens}), 0)
      << err();
  const std::string rows = WriteFile("a.csv", "good,1\n");
  EXPECT_EQ(Run({"datasets", "upload", "b", rows, "--text", "bytes",
                 "--text-length", "64"}),
            0)
      << err();
  EXPECT_EQ(
      Run({"datasets", "upload", "c", text, "--tokens", tokens, "--like", "a"}),
      2);
  EXPECT_THAT(err(), HasSubstr("--tokens and --like both give tokens"));
  absl::MutexLock lock(&server_.state.mutex);
  const v1::DatasetLayout& words = server_.state.datasets["a"].layout();
  ASSERT_EQ(words.categories_size(), 1);
  EXPECT_EQ(words.categories(0).column(), "labels");
  EXPECT_THAT(words.categories(0).values(),
              ::testing::ElementsAre("the", "cat"));
  const v1::DatasetLayout& bytes = server_.state.datasets["b"].layout();
  EXPECT_EQ(bytes.text(), v1::DatasetLayout::BYTES);
  EXPECT_EQ(bytes.text_length(), 64u);
}

TEST_F(DatasetsTest, JsonLinesAreRowsInLinesWithNames) {
  const std::string file = WriteFile("a.txt", "{\"x\": 1, \"y\": 0}\n");
  EXPECT_EQ(Run({"datasets", "upload", "a", file, "--format", "jsonl",
                 "--label-columns", "y"}),
            0)
      << err();
  absl::MutexLock lock(&server_.state.mutex);
  const v1::DatasetLayout& layout = server_.state.datasets["a"].layout();
  EXPECT_EQ(layout.format(), v1::CSV);
  EXPECT_TRUE(layout.has_header());
  EXPECT_THAT(layout.label_names(), ::testing::ElementsAre("y"));
}

TEST_F(DatasetsTest, CategoriesAreThoseOfAnotherDataset) {
  const std::string file = WriteFile("a.csv", "size,kind\n1,cat\n");
  ASSERT_EQ(Run({"datasets", "upload", "a", file, "--header"}), 0) << err();
  EXPECT_EQ(Run({"datasets", "upload", "b", file, "--header", "--like", "a"}),
            2);
  EXPECT_THAT(err(), HasSubstr("--like: dataset a has no text columns"));
  {
    absl::MutexLock lock(&server_.state.mutex);
    v1::DatasetDescription& description =
        *server_.state.datasets["a"].mutable_description();
    description.add_columns()->set_name("size");
    v1::DatasetColumn& kind = *description.add_columns();
    kind.set_name("kind");
    kind.set_is_text(true);
    kind.add_categories("dog");
    kind.add_categories("cat");
  }
  EXPECT_EQ(Run({"datasets", "upload", "b", file, "--header", "--like", "a"}),
            0)
      << err();
  EXPECT_EQ(Run({"datasets", "upload", "c", file, "--header", "--like", "no"}),
            3);
  absl::MutexLock lock(&server_.state.mutex);
  const v1::DatasetLayout& layout = server_.state.datasets["b"].layout();
  ASSERT_EQ(layout.categories_size(), 1);
  EXPECT_EQ(layout.categories(0).column(), "kind");
  EXPECT_THAT(layout.categories(0).values(),
              ::testing::ElementsAre("dog", "cat"));
}

TEST_F(DatasetsTest, ImagesHaveASizeAFitAndChannels) {
  const std::string file = WriteFile("a.tar", "tar");
  EXPECT_EQ(Run({"datasets", "upload", "a", file, file, "--image-size",
                 "120x160", "--image-fit", "stretch", "--grey"}),
            0)
      << err();
  EXPECT_EQ(Run({"datasets", "upload", "b", file, "--image-size", "224"}), 0);
  {
    absl::MutexLock lock(&server_.state.mutex);
    const v1::DatasetLayout& a = server_.state.datasets["a"].layout();
    EXPECT_EQ(a.image_height(), 120u);
    EXPECT_EQ(a.image_width(), 160u);
    EXPECT_EQ(a.image_channels(), 1u);
    EXPECT_EQ(a.image_fit(), v1::DatasetLayout::STRETCH);
    EXPECT_EQ(server_.state.datasets["a"].files_size(), 2);
    const v1::DatasetLayout& b = server_.state.datasets["b"].layout();
    EXPECT_EQ(b.image_height(), 224u);
    EXPECT_EQ(b.image_width(), 224u);
  }
  EXPECT_NE(Run({"datasets", "upload", "c", file, "--image-size", "1x2x3"}), 0);
  EXPECT_THAT(err(), ::testing::HasSubstr("write 224, or 120x160"));
}

TEST_F(DatasetsTest, RecordingsHaveALengthAndARate) {
  const std::string file = WriteFile("a.tar", "tar");
  EXPECT_EQ(Run({"datasets", "upload", "a", file, "--format", "audio",
                 "--audio-samples", "4000", "--audio-rate", "8000"}),
            0)
      << err();
  EXPECT_EQ(Run({"datasets", "upload", "b", file, "--format", "audio",
                 "--audio-seconds", "0.5"}),
            0)
      << err();
  {
    absl::MutexLock lock(&server_.state.mutex);
    const v1::DatasetLayout& a = server_.state.datasets["a"].layout();
    EXPECT_EQ(a.format(), v1::AUDIO);
    EXPECT_EQ(a.audio().samples(), 4000u);
    EXPECT_EQ(a.audio().rate(), 8000u);
    EXPECT_EQ(server_.state.datasets["b"].layout().audio().seconds(), 0.5);
    v1::DatasetDescription& description =
        *server_.state.datasets["a"].mutable_description();
    description.mutable_audio()->set_rate(8000);
    v1::DatasetColumn& labels = *description.add_columns();
    labels.set_name("labels");
    labels.set_is_text(true);
    labels.add_categories("low");
  }
  EXPECT_EQ(Run({"datasets", "upload", "c", file, "--format", "audio", "--like",
                 "a"}),
            0)
      << err();
  EXPECT_NE(Run({"datasets", "upload", "d", file, "--audio-samples", "1",
                 "--audio-seconds", "1"}),
            0);
  EXPECT_NE(Run({"datasets", "upload", "d", file, "--audio-samples", "0"}), 0);
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.datasets["c"].layout().audio().rate(), 8000u);
}

TEST_F(DatasetsTest, ArraysGoByTheNamesOfInputsAndTargets) {
  const std::string file = WriteFile("a.npz", "PK");
  EXPECT_EQ(Run({"datasets", "upload", "a", file, "--input", "input_ids=ids",
                 "--input", "mask=m=1", "--target", "label=y"}),
            0);
  {
    absl::MutexLock lock(&server_.state.mutex);
    const v1::DatasetLayout& layout = server_.state.datasets["a"].layout();
    ASSERT_EQ(layout.input_arrays().size(), 2u);
    EXPECT_EQ(layout.input_arrays().at("input_ids"), "ids");
    EXPECT_EQ(layout.input_arrays().at("mask"), "m=1");
    EXPECT_EQ(layout.target_arrays().at("label"), "y");
    v1::DatasetArray& ids = *server_.state.datasets["a"].add_inputs();
    ids.set_name("input_ids");
    ids.add_shape(128);
    server_.state.datasets["a"].add_targets()->set_name("label");
  }
  EXPECT_EQ(Run({"datasets", "list", "--no-headers"}), 0);
  EXPECT_THAT(out(), ::testing::HasSubstr("\tinput_ids:128\tlabel:1\t"));
  EXPECT_EQ(Run({"datasets", "upload", "b", file, "--input", "ids"}), 2);
  EXPECT_THAT(err(), ::testing::HasSubstr("takes NAME=ARRAY, not 'ids'"));
  EXPECT_EQ(Run({"datasets", "upload", "b", file, "--target", "a=x", "--target",
                 "a=y"}),
            2);
  EXPECT_THAT(err(), ::testing::HasSubstr("--target gives 'a' two arrays"));
  EXPECT_NE(Run({"datasets", "upload", "b", file, "--input", "a=b",
                 "--features-array", "x"}),
            0);
}

TEST_F(DatasetsTest, ReportsARefusedUpload) {
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.failures["UploadDataset"] = {
        absl::AlreadyExistsError("a exists with other content")};
  }
  EXPECT_EQ(Run({"datasets", "upload", "a", WriteFile("a.csv", "1,2\n")}), 6);
  EXPECT_EQ(err(), "error: a exists with other content\n");
}

class ModelsTest : public CommandTest {
 protected:
  void AddVersion(v1::VersionState state) {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.models["sum"].set_name("sum");
    v1::ModelVersion& version = *server_.state.models["sum"].add_versions();
    version.set_model("sum");
    version.set_version(1);
    version.set_state(state);
    version.set_error("needs 2 GiB");
  }
};

TEST_F(ModelsTest, ListsAndGetsVersions) {
  AddVersion(v1::READY);
  EXPECT_EQ(Run({"models", "list", "--no-headers"}), 0);
  EXPECT_THAT(out(), HasSubstr("sum\t1\tready\t"));
  EXPECT_EQ(Run({"models", "get", "sum", "-o", "json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out())["name"], "sum");
  EXPECT_EQ(Run({"models", "get", "none"}), 3);
}

TEST_F(ModelsTest, SaysWhichVersionsKeepMemoryWithoutRequests) {
  AddVersion(v1::READY);
  EXPECT_EQ(Run({"models", "list"}), 0);
  EXPECT_THAT(err(), Not(HasSubstr("keeps")));
  {
    absl::MutexLock lock(&server_.state.mutex);
    v1::Model& model = server_.state.models["sum"];
    model.mutable_versions(0)->set_device("cpu:0");
    model.mutable_versions(0)->mutable_plan()->mutable_inference()->set_peak(
        2 << 20);
    v1::ModelVersion& newer = *model.add_versions();
    newer.set_model("sum");
    newer.set_version(2);
    newer.set_state(v1::READY);
  }
  for (const char* verb : {"list", "get"}) {
    std::vector<std::string> words = {"models", verb};
    if (verb == std::string("get")) words.push_back("sum");
    EXPECT_EQ(Run(words), 0);
    EXPECT_THAT(err(), HasSubstr("note: sum/1 keeps 2.0 MiB on cpu:0, but only "
                                 "requests that name it get it: the others go "
                                 "to sum/2; `gpupool models unload sum/1`"));
    EXPECT_THAT(err(), Not(HasSubstr("sum/2 keeps")));
  }
}

TEST_F(ModelsTest, NamedModelsAreThoseOfTheApiWithTheirPlans) {
  {
    absl::MutexLock lock(&server_.state.mutex);
    v1::Plan& plan = *server_.state.plan.mutable_plan();
    plan.Clear();
    plan.set_parameters(61'706);
    for (const int64_t size : {-1, 1, 28, 28}) {
      if (plan.inputs().empty()) plan.add_inputs();
      plan.mutable_inputs(0)->add_shape(size);
    }
    plan.add_outputs()->add_shape(-1);
    plan.mutable_outputs(0)->add_shape(10);
  }
  EXPECT_EQ(Run({"models", "named", "--no-headers"}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("lenet5\t1x28x28\t10\t61,706\t"));
  EXPECT_THAT(out(), HasSubstr("\nresnet20_cifar\t"));
  EXPECT_EQ(Run({"models", "named", "-o", "json"}), 0) << err();
  const auto models = nlohmann::json::parse(out())["models"];
  EXPECT_EQ(models.size(), 8u);
  EXPECT_EQ(models[2]["name"], "resnet18");
  EXPECT_EQ(models[2]["plan"]["parameters"], "61706");
}

TEST_F(ModelsTest, ANamedModelThatCannotBePlannedFailsTheList) {
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.failures["PlanModel"] = {absl::InvalidArgumentError("no")};
  }
  EXPECT_EQ(Run({"models", "named"}), 2);
  EXPECT_THAT(err(), HasSubstr("no"));
}

TEST_F(ModelsTest, PromotesAJobsCheckpoint) {
  AddJob(7, "digits", v1::SUCCEEDED);
  EXPECT_EQ(Run({"models", "promote", "digits", "--step", "500", "--model",
                 "early", "--max-batch-size", "8", "--wait"}),
            0);
  absl::MutexLock lock(&server_.state.mutex);
  const v1::PromoteCheckpointRequest& request = server_.state.promoted;
  EXPECT_EQ(request.job_id(), 7u);
  EXPECT_EQ(request.step(), 500u);
  EXPECT_EQ(request.model(), "early");
  EXPECT_EQ(request.serving().max_batch_size(), 8u);
}

TEST_F(ModelsTest, ABatchHasAtLeastOneRow) {
  AddJob(7, "digits", v1::SUCCEEDED);
  EXPECT_EQ(Run({"models", "promote", "digits", "--max-batch-size", "0"}), 2);
  EXPECT_THAT(err(), HasSubstr("--max-batch-size: Value 0 not in range"));
  EXPECT_EQ(Run({"models", "upload", "a", "a.onnx", "--max-programs", "0"}), 2);
  EXPECT_THAT(err(), HasSubstr("--max-programs: Value 0 not in range"));
}

TEST_F(ModelsTest, PromotionSaysWhichCheckpointItTook) {
  AddJob(7, "digits", v1::SUCCEEDED);
  EXPECT_EQ(Run({"models", "promote", "digits", "--step", "500"}), 0);
  EXPECT_THAT(err(), HasSubstr("checkpoint of job 7, step 500"));
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_FALSE(server_.state.promoted.has_serving()) << "the job's own";
}

TEST_F(ModelsTest, FailsWhenAVersionCannotBeLoaded) {
  AddVersion(v1::LOAD_FAILED);
  EXPECT_EQ(Run({"models", "load", "sum", "--wait"}), 7);
  EXPECT_THAT(err(), HasSubstr("sum version 1 cannot be loaded: needs 2 GiB"));
}

// A version may stay LOADING for long while an exclusive job has the device.
TEST_F(ModelsTest, WaitsUntilTheVersionIsServed) {
  AddVersion(v1::LOADING);
  const std::jthread server([&] {
    absl::MutexLock lock(&server_.state.mutex);
    const auto is_watched = [&] {
      server_.state.mutex.AssertHeld();
      return server_.state.calls["GetModel"] >= 2;
    };
    server_.state.mutex.Await(absl::Condition(&is_watched));
    server_.state.models["sum"].mutable_versions(0)->set_state(v1::READY);
  });
  EXPECT_EQ(Run({"models", "load", "sum", "--wait", "-o", "json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out())["state"], "READY");
  EXPECT_THAT(err(), HasSubstr("sum version 1 needs 2 GiB"));
}

// The state is stored before requests are let in.
TEST_F(ModelsTest, WaitsUntilAReadyVersionAnswersRequests) {
  AddVersion(v1::READY);
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.not_ready_calls = 2;
  }
  EXPECT_EQ(Run({"models", "load", "sum", "--wait"}), 0);
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.calls["ModelReady"], 3);
}

TEST_F(ModelsTest, AReadyVersionThatDoesNotAnswerInTimeIsNoSuccess) {
  AddVersion(v1::READY);
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.not_ready_calls = 1 << 30;
  }
  EXPECT_EQ(Run({"models", "load", "sum", "--wait", "--timeout", "1ms"}), 124);
  EXPECT_THAT(err(), HasSubstr("sum version 1 is still loading after"));
}

TEST_F(ModelsTest, SaysWhyAVersionIsStillLoadingWhenTheTimeIsOver) {
  AddVersion(v1::LOADING);
  EXPECT_EQ(Run({"models", "load", "sum", "--wait", "--timeout", "1ms"}), 124);
  EXPECT_THAT(err(), HasSubstr("sum version 1 is still loading after"));
  EXPECT_THAT(err(), HasSubstr("`gpupool models unload sum/1` stops it"));
  EXPECT_EQ(Run({"models", "load", "sum", "--wait", "--timeout", "x"}), 2);
}

TEST_F(ModelsTest, AVersionThatIsUnloadedMeanwhileIsNotServed) {
  AddVersion(v1::UNLOADED);
  EXPECT_EQ(Run({"models", "load", "sum", "--wait"}), 6);
  EXPECT_THAT(err(), HasSubstr("was unloaded during the wait"));
}

TEST_F(ModelsTest, LoadsOnTheDeviceThatIsNamed) {
  AddVersion(v1::READY);
  EXPECT_EQ(Run({"models", "load", "sum/2", "--device", "cuda:1"}), 0);
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.loaded.model(), "sum");
  EXPECT_EQ(server_.state.loaded.version(), 2u);
  EXPECT_EQ(server_.state.loaded.device(), "cuda:1");
}

TEST_F(ModelsTest, ShowsWhereOneThatWaitsIsWanted) {
  AddVersion(v1::LOADING);
  {
    absl::MutexLock lock(&server_.state.mutex);
    v1::ModelVersion& version =
        *server_.state.models["sum"].mutable_versions(0);
    version.clear_device();
    version.set_wanted_device("cuda:1");
  }
  EXPECT_EQ(Run({"models", "list"}), 0);
  EXPECT_THAT(out(), HasSubstr("(cuda:1)"));
}

TEST_F(ModelsTest, UnloadsTheNamedVersion) {
  EXPECT_EQ(Run({"models", "unload", "sum/4"}), 0);
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_EQ(server_.state.unloaded.model(), "sum");
  EXPECT_EQ(server_.state.unloaded.version(), 4u);
}

TEST_F(ModelsTest, DeletesOnlyANamedVersion) {
  EXPECT_EQ(Run({"models", "delete", "sum"}), 2);
  EXPECT_THAT(err(), HasSubstr("sum/1"));
  EXPECT_EQ(Run({"models", "delete", "sum/1"}), 0);
  EXPECT_EQ(Run({"models", "load", "sum/x"}), 2);
}

TEST_F(ModelsTest, APlanWithoutTrainingHasNoColumnForIt) {
  const std::string file =
      WriteFile("layers.yaml", "input_shape: [2]\nlayers: [relu]\n");
  {
    absl::MutexLock lock(&server_.state.mutex);
    v1::Plan& plan = *server_.state.plan.mutable_plan();
    plan.mutable_inference()->set_weights(1 << 10);
    plan.mutable_inference()->set_peak(3 << 10);
  }
  EXPECT_EQ(Run({"models", "plan", file}), 0) << err();
  EXPECT_THAT(out(), HasSubstr("BYTES\tINFERENCE\nweights\t1.0 KiB\n"
                               "activations\t0 B\nworkspace\t0 B\n"
                               "peak\t3.0 KiB\n"));
}

using InferTest = CommandTest;

TEST_F(InferTest, MeasuresAccuracyAndLatency) {
  // The class is 0 unless the second number is negative.
  const std::string file = WriteFile("rows.csv", "1,2,0\n1,-2,1\n1,3,1\n");
  EXPECT_EQ(Run({"models", "infer", "sum", "--data", file, "-o", "json"}), 0);
  const auto json = nlohmann::json::parse(out());
  EXPECT_EQ(json["rows"], 3);
  EXPECT_NEAR(json["accuracy"].get<double>(), 2.0 / 3, 1e-12);
  EXPECT_GT(json["p50_ms"].get<double>(), 0);
  EXPECT_GE(json["p99_ms"].get<double>(), json["p50_ms"].get<double>());
  EXPECT_GT(json["rows_per_second"].get<double>(), 0);
}

TEST_F(InferTest, PrintsPredictionsOfChosenRows) {
  const std::string file = WriteFile("rows.csv", "1,2\n1,-2\n1,3\n1,-4\n");
  EXPECT_EQ(Run({"models", "infer", "sum", "--data", file, "--no-labels",
                 "--rows", "every:2", "--print", "--no-headers"}),
            0);
  EXPECT_THAT(out(), HasSubstr("1\t1\t-\t-1 3\n3\t1\t-\t-3 5\nrows:      2\n"));
}

TEST_F(InferTest, TakesTheRowsThatAJobHoldsOut) {
  const std::string rows = WriteFile("rows.csv", "1,2,0\n1,-2,1\n1,3,1\n");
  const std::string job =
      WriteFile("job.yaml", "data: {held_out: {last: 2}}\n");
  EXPECT_EQ(Run({"models", "infer", "sum", "--data", rows, "--held-out-of", job,
                 "--batch", "2", "-o", "json"}),
            0);
  EXPECT_EQ(nlohmann::json::parse(out())["accuracy"], 0.5);
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_THAT(server_.state.request_rows, ::testing::ElementsAre(2));
}

TEST_F(InferTest, ReportsBadInputClearly) {
  const std::string file = WriteFile("rows.csv", "1,2,3,0\n");
  EXPECT_EQ(Run({"models", "infer", "sum", "--data", file}), 2);
  EXPECT_THAT(err(), HasSubstr("takes 2 numbers a row"));
  EXPECT_EQ(Run({"models", "infer", "none", "--data", file}), 3);
  EXPECT_EQ(Run({"models", "infer", "sum", "--data", "/no.csv"}), 3);
  EXPECT_EQ(Run({"models", "infer", "sum", "--data", file, "--rows", "2:1"}),
            2);
  EXPECT_EQ(
      Run({"models", "infer", "sum", "--data", file, "--concurrency", "0"}), 2);
}

class DevicesTest : public CommandTest {
 protected:
  DevicesTest() {
    absl::MutexLock lock(&server_.state.mutex);
    v1::Device& device = *server_.state.devices.add_devices();
    device.set_name("cpu:0");
    device.set_state(v1::DEVICE_READY);
    device.set_limit_bytes(1 << 30);
    device.set_utilization(0.5);
    device.add_job_ids(7);
    device.add_versions("digits/1");
  }
};

TEST_F(DevicesTest, ListsThePool) {
  EXPECT_EQ(Run({"devices", "--no-headers"}), 0);
  EXPECT_EQ(out(), "cpu:0\tready\t1.0 GiB\t0 B\t0 B\t50%\t0\t7\tdigits/1\t-\n");
}

TEST_F(DevicesTest, WatchesUntilTheStreamEnds) {
  EXPECT_EQ(Run({"devices", "--watch", "-o", "json"}), 0);
  std::istringstream lines(out());
  std::string line;
  int count = 0;
  for (; std::getline(lines, line); ++count) {
    EXPECT_EQ(nlohmann::json::parse(line)["devices"][0]["name"], "cpu:0");
  }
  EXPECT_EQ(count, 2);
}

TEST_F(DevicesTest, ShowsHowTheyAreConnected) {
  EXPECT_EQ(Run({"devices", "topology"}), 0);
  EXPECT_EQ(out(), "DEVICE\tcpu:0\ncpu:0\tX\n");
  {
    absl::MutexLock lock(&server_.state.mutex);
    v1::Device& device = *server_.state.devices.add_devices();
    device.set_name("cuda:0");
    v1::DeviceLink& link = *device.add_links();
    link.set_device("cpu:0");
    link.set_link("NODE");
  }
  EXPECT_EQ(Run({"devices", "topology", "--no-headers"}), 0);
  EXPECT_EQ(out(), "cpu:0\tX\t-\ncuda:0\tNODE\tX\n");
}

TEST_F(DevicesTest, ShowsAndTendsMemory) {
  EXPECT_EQ(Run({"devices", "memory", "cpu:0"}), 0);
  EXPECT_EQ(out(), "memory of cpu:0\n");
  EXPECT_EQ(Run({"devices", "memory", "cpu:0", "-o", "json"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out())["limit_bytes"], "4096");
  EXPECT_EQ(Run({"devices", "memory", "cpu:0", "--snapshot"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out())["segments"][0]["bytes"], "64");
  const std::string file = WriteFile("blocks.svg", "");
  EXPECT_EQ(Run({"devices", "memory", "cpu:0", "--snapshot", "-O", file}), 0);
  EXPECT_EQ(out(), file + ": 1 segment of cpu:0\n");
  std::ostringstream svg;
  svg << std::ifstream(file).rdbuf();
  EXPECT_THAT(svg.str(), HasSubstr(">History of cpu:0<"));
  EXPECT_EQ(
      Run({"devices", "memory", "cpu:0", "--snapshot", "-O", "/nowhere/x"}), 3);
  EXPECT_EQ(Run({"devices", "empty-cache", "cpu:0"}), 0);
  EXPECT_EQ(out(), "cpu:0: freed 2.0 KiB\n");
  EXPECT_EQ(Run({"devices", "reset-peak", "cpu:0"}), 0);
  EXPECT_EQ(out(), "cpu:0: the peak is now 1.0 KiB\n");
  EXPECT_EQ(Run({"devices", "memory", "cpu:0", "--all", "--no-headers"}), 0);
  EXPECT_EQ(out(), "allocated_bytes.all.peak\t64\nnum_ooms\t2\n");
}

TEST_F(DevicesTest, DrainsAndResumes) {
  EXPECT_EQ(Run({"devices", "drain", "cpu:0", "--reason", "new fan"}), 0);
  EXPECT_EQ(out(),
            "cpu:0 is drained; job 7 checkpoints and leaves; still served "
            "there: digits/1 (see `gpupool models unload`)\n");
  EXPECT_EQ(Run({"devices", "drain", "cpu:0", "--let-finish"}), 0);
  EXPECT_THAT(out(), HasSubstr("job 7 runs to its end"));
  EXPECT_EQ(Run({"devices", "drain"}), 2);
  EXPECT_EQ(Run({"devices", "resume", "cpu:0"}), 0);
  EXPECT_EQ(out(), "cpu:0 accepts jobs and models again\n");
}

TEST_F(DevicesTest, BoundsRemembersAndDumpsMemory) {
  EXPECT_EQ(Run({"devices", "fraction", "cpu:0", "0.5"}), 0);
  EXPECT_EQ(out(), "cpu:0: at most 2.0 KiB may be allocated\n");
  EXPECT_EQ(Run({"devices", "history", "cpu:0", "on", "--max-entries", "500"}),
            0);
  EXPECT_EQ(out(), "cpu:0: history is on\n");
  {
    absl::MutexLock lock(&server_.state.mutex);
    EXPECT_TRUE(server_.state.history.enabled());
    EXPECT_EQ(server_.state.history.max_entries(), 500u);
  }
  EXPECT_EQ(Run({"devices", "history", "cpu:0", "off"}), 0);
  EXPECT_EQ(Run({"devices", "history", "cpu:0", "maybe"}), 2);
  const std::string file = WriteFile("dump.pickle", "");
  EXPECT_EQ(Run({"devices", "dump", "cpu:0", "-O", file}), 0);
  EXPECT_EQ(out(), file + ": 5 B\n");
  EXPECT_EQ(Run({"devices", "dump", "cpu:0", "-O", "/nowhere/x"}), 3);
  // The fake server sends no snapshot.
  EXPECT_EQ(Run({"devices", "dump", "cpu:0", "--segments", "-O", file}), 1);
  EXPECT_THAT(err(), HasSubstr("has no list of segments"));
}

using AdminTest = CommandTest;

TEST_F(AdminTest, DrainsAndShowsState) {
  EXPECT_EQ(Run({"admin", "drain"}), 0);
  EXPECT_EQ(out(), "the server accepts no more jobs; 3 running\n");
  EXPECT_EQ(Run({"admin", "state", "--no-headers"}), 0);
  EXPECT_EQ(out(), "11\t0\t-\tno\tno\n");
}

using VersionTest = CommandTest;

TEST_F(VersionTest, TellsBothVersions) {
  EXPECT_EQ(Run({"version"}), 0);
  EXPECT_THAT(out(), HasSubstr("client: "));
  EXPECT_THAT(out(), HasSubstr("server: 9.8.7\n"));
  EXPECT_EQ(Run({"version", "-o", "json"}), 0);
  const auto json = nlohmann::json::parse(out());
  EXPECT_EQ(json["server"]["version"], "9.8.7");
  EXPECT_TRUE(json["client"]["commit"].is_string());
}

TEST_F(VersionTest, TellsItsOwnWithoutAServer) {
  server_.Stop();
  EXPECT_EQ(Run({"version", "--client"}), 0);
  EXPECT_EQ(Run({"version", "--timeout", "3"}), 5);
  EXPECT_THAT(out(), HasSubstr("client: "));
  EXPECT_THAT(err(), HasSubstr("cannot reach a server"));
}

}  // namespace
}  // namespace gpupool::client
