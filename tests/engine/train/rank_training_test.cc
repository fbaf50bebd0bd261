// Ranks are processes here: each trains on its own CPU device, as workers do.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/base/philox.h"
#include "engine/base/sha256.h"
#include "engine/memory/caching_allocator.h"
#include "engine/memory/host_page_source.h"
#include "engine/runtime/weight_view.h"
#include "engine/train/training_run.h"
#include "tests/engine/scratch_folder.h"
#include "tests/engine/train/rank_processes.h"
#include "tests/engine/train/two_heads.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uint64_t kSeed = 23;
constexpr char kMlp[] = R"(
  model {
    input_shape: 64
    layers { dense { units: 40 } } layers { relu {} }
    layers { dense { units: 24 } } layers { tanh {} }
    layers { dense { units: 4 } }
  })";
constexpr char kCnn[] = R"(
  model {
    input_shape: 1 input_shape: 8 input_shape: 8
    layers { conv2d { filters: 6 kernel: 3 padding: 1 } } layers { relu {} }
    layers { max_pool { kernel: 2 } }
    layers { conv2d { filters: 8 kernel: 3 padding: 1 } } layers { relu {} }
    layers { flatten {} } layers { dense { units: 4 } }
  })";
constexpr char kBatchNormCnn[] = R"(
  model {
    input_shape: 1 input_shape: 8 input_shape: 8
    layers { conv2d { filters: 6 kernel: 3 } } layers { batch_norm {} }
    layers { relu {} } layers { flatten {} } layers { dense { units: 4 } }
  })";
// More than a megabyte of weights, so that there are several buckets.
constexpr char kWide[] = R"(
  model {
    input_shape: 64
    layers { dense { units: 600 } } layers { relu {} }
    layers { dense { units: 600 } } layers { relu {} }
    layers { dense { units: 4 } }
  })";

v1::JobSpec Job(const std::string& model, uint32_t devices,
                const std::string& training) {
  v1::JobSpec spec;
  const std::string text =
      absl::StrCat(model, " data { held_out { last: 25 } } devices: ", devices,
                   " training { cross_entropy {} steps: 24 batch_size: 24 ",
                   "seed: ", kSeed, " ", training, " }");
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec))
      << text;
  return spec;
}

// Actions of the ranks in addition to steps.
struct Script {
  std::string resume;           // a manifest
  uint64_t steps = 1000;        // or until the run is done
  uint64_t evaluate_every = 0;  // steps
  uint64_t save_at = 0;         // step, by rank 0
  int victim = -1;              // this rank, before step `victim_step`:
  uint64_t victim_step = 0;
  int signal = 0;                 //   gets this signal,
  bool asks_to_stop = false;      //   asks for a stop,
  bool aborts = false;            //   or is aborted while it waits
  uint32_t other_seed_of = 1000;  // this rank has another job
};

class RankTrainingTest : public ::testing::Test {
 protected:
  RankTrainingTest() {
    std::filesystem::create_directory(meeting_);
    StoreRows();
  }

  // Stores rows. One of them may have a different first number.
  void StoreRows(int odd_row = -1, double odd_number = 0) {
    Philox random(kSeed);
    std::string text;
    for (int row = 0; row < 215; ++row) {
      double sum = 0;
      for (int i = 0; i < 64; ++i) {
        double x = random.NextFloat();
        if (row == odd_row && i == 0) x = odd_number;
        sum += i % 3 == 0 ? x : 0;
        absl::StrAppend(&text, x, ",");
      }
      absl::StrAppend(&text, static_cast<int>(sum * 4) % 4, "\n");
    }
    dataset_.Clear();
    v1::DatasetFile* file = dataset_.add_files();
    file->set_role(v1::DatasetFile::TABLE);
    file->set_file_name("table.csv");
    file->set_total_bytes(text.size());
    file->set_sha256(Sha256Hex(text));
    std::ofstream(blobs_.path() + "/" + file->sha256(), std::ios::binary)
        << text;
  }

  // Returns the output of each rank: lines "loss", "scale", "skipped",
  // "evaluation", "weight", "digest", "memory", "checkpoint", or the status
  // that ended the training.
  std::vector<std::string> Train(const v1::JobSpec& spec,
                                 const Script& script = {}) {
    const int ranks = static_cast<int>(spec.devices());
    const std::string name = absl::StrCat("attempt-", ++groups_);
    RankProcesses processes(
        ranks, [&](int rank) { return RunRank(spec, script, rank, name); });
    std::vector<std::string> texts;
    for (int rank = 0; rank < ranks; ++rank) {
      const bool stopped = rank == script.victim && script.signal == SIGSTOP;
      texts.push_back(stopped ? "" : processes.Result(rank));
    }
    return texts;
  }

  std::string RunRank(v1::JobSpec spec, const Script& script, int rank,
                      const std::string& name) {
    HostPageSource source;
    CachingAllocator allocator("cpu:0", uint64_t{1} << 28, &source);
    CpuBackend backend(1);
    TrainingRequest request{.job_id = 3, .attempt = 1};
    if (script.other_seed_of == static_cast<uint32_t>(rank)) {
      spec.mutable_training()->set_seed(kSeed + 1);
    }
    request.spec = spec;
    request.dataset = dataset_;
    request.resume_manifest_sha256 = script.resume;
    const auto abort = std::make_shared<AbortSwitch>();
    if (spec.devices() > 1) {
      request.group =
          RankGroup{.rank = rank,
                    .size = static_cast<int>(spec.devices()),
                    .name = name,
                    .folder = meeting_,
                    .timeout = script.signal == SIGSTOP ? absl::Seconds(2)
                                                        : absl::Minutes(1),
                    .abort = abort};
    }
    auto run =
        TrainingRun::Create({&backend, &allocator, blobs_.path()}, request);
    if (!run.ok()) return run.status().ToString();
    std::string text;
    const absl::Status status = Steps(script, rank, *abort, **run, text);
    if (!status.ok()) return status.ToString();
    Describe(**run, text);
    return text;
  }

  static absl::Status Steps(const Script& script, int rank, AbortSwitch& abort,
                            TrainingRun& run, std::string& text) {
    absl::Status status;
    while (status.ok() && run.step() < run.total_steps() &&
           run.step() < script.steps && !run.stopped_early() &&
           !run.stop_agreed()) {
      if (rank == script.victim && run.step() == script.victim_step) {
        if (script.signal != 0) raise(script.signal);
        if (script.asks_to_stop) run.RequestStop();
        if (script.aborts) {
          abort.Abort("the job was cancelled");
        }
      }
      status = run.StartStep();
      if (status.ok()) status = run.FinishStep();
      if (!status.ok()) break;
      Line(text, "loss", *run.Loss());
      Line(text, "scale", run.loss_scale());
      Line(text, "skipped", static_cast<double>(run.skipped_steps()));
      if (script.evaluate_every > 0 &&
          run.step() % script.evaluate_every == 0) {
        const auto evaluation = run.Evaluate();
        if (!evaluation.ok()) return evaluation.status();
        Line(text, "evaluation", evaluation->loss());
        Line(text, "accuracy", evaluation->accuracy());
        for (const auto& [name, value] : evaluation->metrics()) {
          Line(text, name.c_str(), value);
        }
        for (uint64_t count : evaluation->confusion().counts()) {
          Line(text, "confusion", static_cast<double>(count));
        }
      }
      if (run.step() == script.save_at && run.leads()) {
        const auto saved = run.SaveCheckpoint();
        if (!saved.ok()) return saved.status();
        absl::StrAppend(&text, "saved ", saved->manifest_sha256(), "\n");
      }
    }
    return status;
  }

  static void Line(std::string& text, const char* what, double number) {
    char line[80];
    std::snprintf(line, sizeof(line), "%s %a\n", what, number);
    text += line;
  }

  static void Describe(TrainingRun& run, std::string& text) {
    const auto weights = WeightView::Read(run.weights());
    Sha256 digest;
    size_t count = 0;
    for (const WeightEntry& entry : weights->layout().entries()) {
      const auto bytes = weights->bytes_of(entry);
      const auto* numbers = reinterpret_cast<const float*>(bytes.data());
      if (entry.memory_class == MemoryClass::kState) continue;
      digest.Update(bytes.data(), bytes.size());
      if (entry.dtype != DType::kFloat32 || entry.in_optimizer_block()) {
        continue;
      }
      for (size_t i = 0; i < bytes.size() / sizeof(float); ++i) {
        if (count++ % 7 == 0 && count < 4000) Line(text, "weight", numbers[i]);
      }
    }
    absl::StrAppend(&text, "digest ", digest.FinishHex(), "\nmemory ",
                    run.memory().planned_peak_bytes(), " ",
                    run.memory().measured_peak_bytes(), "\n");
    if (!run.leads()) return;
    const auto saved = run.SaveCheckpoint();
    absl::StrAppend(
        &text, "checkpoint ",
        saved.ok() ? saved->manifest_sha256() : saved.status().ToString(),
        "\n");
  }

  static std::vector<std::string> Words(const std::string& text,
                                        const std::string& what) {
    std::vector<std::string> words;
    for (const auto line : absl::StrSplit(text, '\n')) {
      if (absl::StartsWith(line, what + " ")) {
        words.emplace_back(line.substr(what.size() + 1));
      }
    }
    return words;
  }

  static std::vector<double> Numbers(const std::string& text,
                                     const std::string& what) {
    std::vector<double> numbers;
    for (const std::string& word : Words(text, what)) {
      numbers.push_back(std::strtod(word.c_str(), nullptr));
    }
    return numbers;
  }

  static void ExpectNear(const std::string& got, const std::string& wanted,
                         const std::string& what, double tolerance) {
    const std::vector<double> a = Numbers(got, what);
    const std::vector<double> b = Numbers(wanted, what);
    ASSERT_FALSE(b.empty()) << wanted.substr(0, 500);
    ASSERT_EQ(a.size(), b.size()) << got.substr(0, 500);
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(b[i])))
          << what << " " << i;
    }
  }

  static void ExpectRanksAgree(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      for (const char* what :
           {"loss", "scale", "skipped", "evaluation", "accuracy", "digest"}) {
        EXPECT_EQ(Words(text, what), Words(texts[0], what));
      }
    }
    EXPECT_EQ(Words(texts[0], "digest").size(), 1u) << texts[0].substr(0, 500);
  }

  const ScratchFolder blobs_;
  const std::string meeting_ = blobs_.path() + "/meeting";
  v1::Dataset dataset_;
  int groups_ = 0;
};

TEST_F(RankTrainingTest, ManyDevicesTrainAsOneWithTheSameBatch) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  const struct {
    const char* model;
    const char* training;
  } cases[] = {
      {kMlp, "sgd { learning_rate: 0.1 }"},
      {kMlp,
       "sgd { learning_rate: 0.1 momentum: 0.9 } clip_gradient_norm: 0.5"},
      {kMlp, "adam {} accumulate_batches: 2 ema { decay: 0.9 }"},
      {kMlp,
       "adamw {} groups { weights: 'dense_0.*' learning_rate_factor: 3 "
       "weight_decay: 0.2 }"},
      {kCnn, "sgd { learning_rate: 0.1 momentum: 0.9 }"},
      {kCnn, "adam { learning_rate: 0.002 } clip_gradient_value: 0.1"},
      {kWide, "sgd { learning_rate: 0.05 momentum: 0.9 }"},
      {kWide, "adam {} recompute { layers: '*' }"},
  };
  const Script script{.evaluate_every = 6};
  for (const auto& one : cases) {
    const std::string single =
        Train(Job(one.model, 1, one.training), script)[0];
    for (const uint32_t ranks : {2u, 3u}) {
      SCOPED_TRACE(absl::StrCat(one.training, " on ", ranks, one.model));
      const auto texts = Train(Job(one.model, ranks, one.training), script);
      ExpectRanksAgree(texts);
      for (const char* what : {"loss", "evaluation", "weight"}) {
        ExpectNear(texts[0], single, what, 1e-5);
      }
      ExpectNear(texts[0], single, "accuracy", 0.05);
    }
  }
}

TEST_F(RankTrainingTest, ManyDevicesShareTheLastBatchOfAnEpoch) {
  // 190 rows: seven steps of 24, and one of 22.
  v1::JobSpec one = Job(kWide, 1, "adam {}");
  one.mutable_data()->set_drop_last(false);
  v1::JobSpec two = one;
  two.set_devices(2);
  const std::string single = Train(one)[0];
  const auto texts = Train(two);
  ExpectRanksAgree(texts);
  for (const char* what : {"loss", "weight"}) {
    ExpectNear(texts[0], single, what, 1e-5);
  }
}

TEST_F(RankTrainingTest, RanksMixTheirOwnRows) {
  const char* mix = "adam {} mix { mixup_alpha: 1 cutmix_alpha: 1 }";
  v1::JobSpec spec = Job(kCnn, 2, mix);
  spec.mutable_data()->set_drop_last(false);
  const auto whole = Train(spec, {.evaluate_every = 5, .save_at = 10});
  ExpectRanksAgree(whole);
  const auto saved = Words(whole[0], "saved");
  ASSERT_EQ(saved.size(), 1u) << whole[0].substr(0, 500);
  const auto rest = Train(spec, {.resume = saved[0]});
  ExpectRanksAgree(rest);
  EXPECT_EQ(Words(rest[0], "digest"), Words(whole[0], "digest"));
  EXPECT_NE(Words(whole[0], "loss"),
            Words(Train(Job(kCnn, 2, "adam {}"))[0], "loss"));
}

// A rank with one row mixes it with itself.
TEST_F(RankTrainingTest, RanksOfOneRowTrainAsWithoutMixing) {
  v1::JobSpec plain = Job(kMlp, 2, "sgd { learning_rate: 0.1 }");
  plain.mutable_training()->set_batch_size(2);
  v1::JobSpec mixed = plain;
  mixed.mutable_training()->mutable_mix()->set_mixup_alpha(1);
  const auto texts = Train(mixed);
  ExpectRanksAgree(texts);
  const std::string wanted = Train(plain)[0];
  for (const char* what : {"loss", "weight"}) {
    ExpectNear(texts[0], wanted, what, 1e-4);
  }
}

TEST_F(RankTrainingTest, SeveralInputsAndLossesAreSharedLikeOthers) {
  const auto store = [this](const std::string& bytes) {
    const std::string sha256 = Sha256Hex(bytes);
    std::ofstream(blobs_.path() + "/" + sha256, std::ios::binary) << bytes;
    return sha256;
  };
  v1::JobSpec spec = Job("", 1, "sgd { learning_rate: 0.5 }");
  spec.mutable_data()->mutable_held_out()->set_last(4);
  spec.mutable_model()->mutable_onnx()->set_sha256(store(TwoHeadsOnnx()));
  spec.mutable_training()->clear_loss();
  spec.mutable_training()->set_batch_size(8);
  spec.mutable_training()->set_steps(8);
  AddTwoLosses(*spec.mutable_training());
  dataset_.mutable_files(0)->set_file_name("table.npz");
  dataset_.mutable_files(0)->set_sha256(store(TwoHeadsNpz()));
  NameTwoHeads(*dataset_.mutable_layout());
  const Script script{.evaluate_every = 4};
  const std::string single = Train(spec, script)[0];
  spec.set_devices(2);
  const auto texts = Train(spec, script);
  ExpectRanksAgree(texts);
  for (const char* what : {"loss", "evaluation", "weight"}) {
    ExpectNear(texts[0], single, what, 1e-5);
  }
}

// Each rank normalises its own part of the batch, so the numbers differ from
// those of one device.
TEST_F(RankTrainingTest, WithBatchNormRanksStayEqualAndTheLossIsClose) {
  const char* training = "sgd { learning_rate: 0.05 momentum: 0.9 }";
  const Script script{.evaluate_every = 6};
  const std::string single = Train(Job(kBatchNormCnn, 1, training), script)[0];
  const auto texts = Train(Job(kBatchNormCnn, 2, training), script);
  ExpectRanksAgree(texts);
  ExpectNear(texts[0], single, "loss", 0.15);
  ExpectNear(texts[0], single, "evaluation", 0.3);
}

TEST_F(RankTrainingTest, DropoutDiffersBetweenRanksAndRunsRepeat) {
  std::string model = kMlp;
  model.insert(model.rfind("layers"),
               "layers { dropout { probability: 0.5 } } ");
  const auto first = Train(Job(model, 2, "adam {}"));
  ExpectRanksAgree(first);
  EXPECT_EQ(first, Train(Job(model, 2, "adam {}")));
}

TEST_F(RankTrainingTest, AResumedRunEndsWithTheSameBits) {
  for (const char* training :
       {"adam {} ema { decay: 0.9 }",
        "sgd { learning_rate: 0.1 momentum: 0.9 } accumulate_batches: 2 "
        "evaluate_every_steps: 5 schedule { plateau { patience: 0 } }"}) {
    SCOPED_TRACE(training);
    const v1::JobSpec spec = Job(kBatchNormCnn, 2, training);
    const auto whole = Train(spec, {.evaluate_every = 5, .save_at = 10});
    const auto saved = Words(whole[0], "saved");
    ASSERT_EQ(saved.size(), 1u) << whole[0].substr(0, 500);
    const auto rest = Train(spec, {.resume = saved[0], .evaluate_every = 5});
    ExpectRanksAgree(rest);
    EXPECT_EQ(Words(rest[0], "digest"), Words(whole[0], "digest"));
    EXPECT_EQ(Words(rest[0], "checkpoint"), Words(whole[0], "checkpoint"));
    EXPECT_EQ(Words(rest[1], "digest"), Words(whole[1], "digest"));
  }
}

TEST_F(RankTrainingTest, EachRankTakesTheBytesThatArePlanned) {
  for (const char* model : {kCnn, kWide}) {
    const auto texts = Train(Job(model, 2, "adam {} accumulate_batches: 2"),
                             {.evaluate_every = 12});
    for (const std::string& text : texts) {
      const auto memory = Words(text, "memory");
      ASSERT_EQ(memory.size(), 1u) << text.substr(0, 500);
      const std::vector<std::string> both = absl::StrSplit(memory[0], ' ');
      EXPECT_EQ(both[0], both[1]) << "planned and measured";
    }
  }
}

TEST_F(RankTrainingTest, AllRanksStopAfterTheSameStep) {
  const auto texts =
      Train(Job(kMlp, 3, "adam {}"),
            {.victim = 2, .victim_step = 4, .asks_to_stop = true});
  ExpectRanksAgree(texts);
  EXPECT_EQ(Words(texts[0], "loss").size(), 5u);
}

TEST_F(RankTrainingTest, EarlyStoppingIsDecidedByAllAlike) {
  const auto texts =
      Train(Job(kMlp, 2,
                "adam {} early_stopping { patience: 2 min_delta: 1e9 } "
                "evaluate_every_steps: 1"),
            {.evaluate_every = 1});
  ExpectRanksAgree(texts);
  EXPECT_EQ(Words(texts[1], "loss").size(), 3u);
}

// The training loss is the mean of the ranks' means, so the weights must stay
// as they are for the losses to be equal.
TEST_F(RankTrainingTest, AWeightedHeldOutLossIsDividedByTheWeightsOfAllRanks) {
  std::vector<std::string> singles;
  for (const uint32_t ranks : {1u, 3u}) {
    v1::JobSpec spec = Job(kMlp, ranks, "sgd { learning_rate: 1e-12 }");
    spec.mutable_training()->set_steps(1);
    for (const double weight : {0.1, 1.0, 4.0, 9.0}) {
      spec.mutable_training()->mutable_cross_entropy()->add_class_weights(
          weight);
    }
    const auto texts = Train(spec, {.evaluate_every = 1});
    ExpectRanksAgree(texts);
    singles.push_back(texts[0]);
  }
  ExpectNear(singles[1], singles[0], "evaluation", 1e-6);
}

// 25 rows are evaluated, so the parts of the ranks differ by a row. The ignored
// label leaves them with different numbers of scores.
TEST_F(RankTrainingTest, MetricsAreThoseOfTheRowsOfAllRanks) {
  const char* regression = R"(
    model { input_shape: 64 layers { dense { units: 1 } } })";
  const auto job = [&](uint32_t ranks, bool classes) {
    v1::JobSpec spec =
        Job(classes ? kMlp : regression, ranks, "sgd { learning_rate: 1e-12 }");
    v1::TrainingSpec& training = *spec.mutable_training();
    training.set_steps(1);
    if (classes) {
      training.mutable_cross_entropy()->set_ignore_label(3);
      for (const char* name : {"f1", "iou", "auc", "confusion", "perplexity"}) {
        training.add_metrics(name);
      }
    } else {
      training.mutable_mean_squared_error();
      training.add_metrics("mae");
      training.add_metrics("r2");
    }
    return spec;
  };
  const Script script{.evaluate_every = 1};
  for (const bool classes : {true, false}) {
    const std::string single = Train(job(1, classes), script)[0];
    for (const uint32_t ranks : {2u, 3u}) {
      const auto texts = Train(job(ranks, classes), script);
      ExpectRanksAgree(texts);
      for (const char* what :
           {"f1", "iou", "auc", "confusion", "perplexity", "mae", "r2"}) {
        if (Words(single, what).empty()) continue;
        ExpectNear(texts[0], single, what, 1e-5);
        EXPECT_EQ(Words(texts[1], what), Words(texts[0], what));
      }
    }
    EXPECT_EQ(Words(single, "confusion").size(), classes ? 16u : 0u);
    EXPECT_EQ(Words(single, "auc").size(), classes ? 1u : 0u);
    EXPECT_EQ(Words(single, "r2").size(), classes ? 0u : 1u);
  }
}

TEST_F(RankTrainingTest, AKilledRankIsNamedByAllOthers) {
  const auto texts = Train(Job(kMlp, 3, "adam {}"),
                           {.victim = 1, .victim_step = 3, .signal = SIGKILL});
  for (const size_t rank : {0, 2}) {
    EXPECT_THAT(texts[rank], StartsWith("UNAVAILABLE"));
    EXPECT_THAT(texts[rank], HasSubstr("rank 1 of 3 is lost"));
  }
}

TEST_F(RankTrainingTest, ARankThatHangsIsNamedAfterTheTimeout) {
  const auto texts = Train(Job(kMlp, 2, "adam {}"),
                           {.victim = 1, .victim_step = 3, .signal = SIGSTOP});
  EXPECT_THAT(texts[0], StartsWith("UNAVAILABLE"));
  EXPECT_THAT(texts[0], HasSubstr("rank 1 of 2 is lost"));
}

TEST_F(RankTrainingTest, AnAbortEndsAllRanks) {
  const auto texts = Train(Job(kMlp, 2, "adam {}"),
                           {.victim = 1, .victim_step = 3, .aborts = true});
  EXPECT_THAT(texts[1], StartsWith("ABORTED"));
  EXPECT_THAT(texts[0], StartsWith("UNAVAILABLE"));
  EXPECT_THAT(texts[0], HasSubstr("the job was cancelled"));
}

TEST_F(RankTrainingTest, ALossThatIsNotFiniteIsTheFaultOfAll) {
  const auto texts = Train(Job(kCnn, 2, "sgd { learning_rate: 1e30 }"));
  for (const std::string& text : texts) {
    EXPECT_THAT(text, StartsWith("INVALID_ARGUMENT"));
    EXPECT_THAT(text, HasSubstr("hint: lower the learning rate"));
  }
}

// One row exceeds the range of float16. So in each epoch at most one rank
// overflows, in one step. One device alone skips the same steps.
TEST_F(RankTrainingTest, AnOverflowOfOneRankIsSkippedByAll) {
  constexpr char kHalf[] =
      "adam {} precision: FP16 "
      "loss_scaling { initial: 1024 growth_interval: 5 }";
  StoreRows(17, 1e6);
  const Script script{.save_at = 10};
  const std::string single = Train(Job(kMlp, 1, kHalf), script)[0];
  const std::vector<double> skipped = Numbers(single, "skipped");
  ASSERT_EQ(skipped.size(), 24u) << single.substr(0, 500);
  EXPECT_GE(skipped.back(), 1);
  EXPECT_LE(skipped.back(), 4);  // there are four epochs
  for (const uint32_t ranks : {2u, 3u}) {
    SCOPED_TRACE(ranks);
    const v1::JobSpec spec = Job(kMlp, ranks, kHalf);
    const auto texts = Train(spec, script);
    ExpectRanksAgree(texts);
    EXPECT_EQ(Words(texts[0], "skipped"), Words(single, "skipped"));
    EXPECT_EQ(Words(texts[0], "scale"), Words(single, "scale"));
    const std::vector<double> scales = Numbers(texts[0], "scale");
    for (size_t i = 1; i < scales.size(); ++i) {
      if (skipped[i] == skipped[i - 1]) continue;
      EXPECT_EQ(scales[i], scales[i - 1] / 2) << "step " << i + 1;
    }
    const auto saved = Words(texts[0], "saved");
    ASSERT_EQ(saved.size(), 1u) << texts[0].substr(0, 500);
    const auto rest = Train(spec, {.resume = saved[0]});
    ExpectRanksAgree(rest);
    EXPECT_EQ(Words(rest[0], "digest"), Words(texts[0], "digest"));
  }
}

TEST_F(RankTrainingTest, RanksThatBeginWithOtherWeightsDoNotTrain) {
  const auto texts = Train(Job(kMlp, 2, "adam {}"), {.other_seed_of = 1});
  for (const std::string& text : texts) {
    EXPECT_THAT(text, StartsWith("FAILED_PRECONDITION"));
    EXPECT_THAT(text, HasSubstr("rank 1 of 2 begins with other weights"));
  }
}

// The other rank gets the reason.
TEST_F(RankTrainingTest, ARankThatCannotStartEndsTheGroup) {
  v1::JobSpec spec = Job(kMlp, 2, "adam {}");
  const auto texts = Train(spec, {.resume = std::string(64, 'a')});
  for (const std::string& text : texts) {
    EXPECT_TRUE(absl::StartsWith(text, "NOT_FOUND") ||
                absl::StartsWith(text, "UNAVAILABLE"))
        << text;
  }
}

TEST_F(RankTrainingTest, OnlyRankZeroWritesCheckpoints) {
  const std::string name = "leaders";
  RankProcesses processes(2, [&](int rank) {
    HostPageSource source;
    CachingAllocator allocator("cpu:0", uint64_t{1} << 28, &source);
    CpuBackend backend(1);
    TrainingRequest request{.job_id = 3, .attempt = 1};
    request.spec = Job(kMlp, 2, "adam {}");
    request.dataset = dataset_;
    request.group =
        RankGroup{.rank = rank, .size = 2, .name = name, .folder = meeting_};
    auto run =
        TrainingRun::Create({&backend, &allocator, blobs_.path()}, request);
    if (!run.ok()) return run.status().ToString();
    return (*run)->SaveCheckpoint().status().ToString();
  });
  EXPECT_EQ(processes.Result(0), "OK");
  EXPECT_THAT(processes.Result(1), HasSubstr("rank 1 of 2 does not write"));
}

TEST_F(RankTrainingTest, AGroupHasAsManyRanksAsTheJobHasDevices) {
  RankProcesses lonely(1, [&](int) {
    HostPageSource source;
    CachingAllocator allocator("cpu:0", uint64_t{1} << 28, &source);
    CpuBackend backend(1);
    TrainingRequest request{.job_id = 3, .attempt = 1};
    request.spec = Job(kMlp, 2, "adam {}");
    request.dataset = dataset_;
    return TrainingRun::Create({&backend, &allocator, blobs_.path()}, request)
        .status()
        .ToString();
  });
  EXPECT_THAT(lonely.Result(0), HasSubstr("2 devices"));
}

}  // namespace
}  // namespace gpupool::engine
