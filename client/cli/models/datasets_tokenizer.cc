// gpupool datasets tokenizer train: makes a SentencePiece model of texts. Asks
// no server. The program gpupool-tokenizer trains, because only it has
// SentencePiece.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/program_output.h"
#include "client/cli/command/verbs.h"
#include "client/cli/command/worker_program.h"
#include "client/files/local_file.h"
#include "client/text/units.h"
#include "gpupool/v1/dataset.pb.h"

namespace gpupool::client {
namespace {

// A gigabyte of text, the limit, takes hours.
constexpr absl::Duration kMostOfTraining = absl::Hours(24);
// 3 controls, 256 bytes and a character; and the limit of data sets.
constexpr uint32_t kFewestPieces = 260;
constexpr uint32_t kMostPieces = 262'144;

struct TokenizerOptions {
  std::vector<std::string> files;
  std::string kind = "bpe";
  uint32_t pieces = 8000;
  std::string out;
  std::string binary;
};

std::string TokenizerBinary(const std::string& given) {
  return given.empty() ? ProgramBesideThis("gpupool-tokenizer") : given;
}

// Returns the number of pieces that the program prints, or its error.
absl::StatusOr<uint32_t> PiecesOf(const ProgramOutput& output) {
  const std::string text(absl::StripAsciiWhitespace(output.text));
  uint32_t pieces = 0;
  if (output.exit_code == 0 && absl::SimpleAtoi(text, &pieces)) return pieces;
  if (output.exit_code == 1 && !text.empty()) {
    return absl::InvalidArgumentError(text);
  }
  return absl::InternalError(absl::StrCat(
      "gpupool-tokenizer ", EndText(output),
      output.signal != 0 ? "; the machine may have too little memory, so train "
                           "on a part of the text"
                         : "; install gpupool and gpupool-tokenizer of one "
                           "build"));
}

absl::StatusOr<ProgramOutput> RunTokenizer(
    const Context& context, const std::vector<std::string>& arguments) {
  const absl::Duration limit = context.options().timeout_given
                                   ? context.options().timeout
                                   : kMostOfTraining;
  auto output = RunProgram(arguments, limit, context.stop());
  if (!absl::IsNotFound(output.status()) &&
      !absl::IsUnavailable(output.status())) {
    return output;
  }
  return absl::Status(
      output.status().code(),
      absl::StrCat(output.status().message(),
                   "; install gpupool-tokenizer beside gpupool, or name it "
                   "with --tokenizer-binary"));
}

int TrainTokenizer(Context& context, const TokenizerOptions& options) {
  for (const std::string& file : options.files) {
    const absl::Status opened = LocalFile::Open(file).status();
    if (!opened.ok()) return context.Fail(opened);
  }
  std::vector<std::string> arguments = {
      TokenizerBinary(options.binary), "train", options.kind,
      absl::StrCat(options.pieces), options.out};
  arguments.insert(arguments.end(), options.files.begin(), options.files.end());
  const auto output = RunTokenizer(context, arguments);
  if (absl::IsCancelled(output.status())) return kInterrupted;
  if (!output.ok()) return context.Fail(output.status());
  const absl::StatusOr<uint32_t> pieces = PiecesOf(*output);
  if (!pieces.ok()) return context.Fail(pieces.status());
  v1::TextDescription trained;
  trained.set_tokenizer(options.kind == "bpe" ? v1::TextDescription::BPE
                                              : v1::TextDescription::UNIGRAM);
  trained.set_vocabulary(*pieces);
  context.Print(trained, [&] {
    *context.out().stream << options.out << ": " << GroupDigits(*pieces)
                          << " pieces, " << options.kind << "\n";
  });
  if (*pieces < options.pieces) {
    context.Say(absl::StrCat("the texts have no more than ",
                             GroupDigits(*pieces), " pieces; --vocab-size is ",
                             GroupDigits(options.pieces)));
  }
  return kOk;
}

}  // namespace

void AddDatasetsTokenizer(CLI::App& datasets, Invocation& invocation) {
  CLI::App* tokenizer =
      AddVerb(datasets, "tokenizer", "Make a tokenizer for text.",
              "  gpupool datasets tokenizer train book.txt --out book.model");
  tokenizer->require_subcommand(1);
  auto options = std::make_shared<TokenizerOptions>();
  CLI::App* verb = AddVerb(
      *tokenizer, "train",
      "Train a SentencePiece model on text files, for `gpupool datasets upload "
      "--tokenizer`. The same texts give the same model. Characters that they "
      "do not have become bytes. No server is asked.",
      "  gpupool datasets tokenizer train book.txt --out book.model\n"
      "  gpupool datasets tokenizer train a.txt b.txt --kind unigram \\\n"
      "      --vocab-size 16000 --out both.model");
  verb->add_option("FILE", options->files,
                   "UTF-8 text, not compressed, at most 1 GiB in all")
      ->required();
  verb->add_option("--out", options->out, "The model file to write")
      ->required()
      ->type_name("FILE");
  verb->add_option("--kind", options->kind, "Kind of model (default: bpe)")
      ->check(CLI::IsMember({"bpe", "unigram"}))
      ->type_name("KIND");
  verb->add_option("--vocab-size", options->pieces,
                   "The most pieces (default: 8000)")
      ->check(CLI::Range(kFewestPieces, kMostPieces))
      ->type_name("N");
  verb->add_option("--tokenizer-binary", options->binary,
                   "The program that trains (default: gpupool-tokenizer "
                   "beside this program)")
      ->type_name("FILE");
  invocation.On(verb,
                [options](Context& c) { return TrainTokenizer(c, *options); });
}

}  // namespace gpupool::client
