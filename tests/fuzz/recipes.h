// The recipes of the graph fuzzer: each writes one node or a small group in a
// form that the importer usually accepts. Operators without a recipe of their
// own are written from ONNX's schemas, with random attributes.
#pragma once

#include <string>
#include <vector>

#include "tests/fuzz/graph_writer.h"

namespace gpupool::engine::fuzz {

struct NamedRecipe {
  std::string name;  // of the operator
  void (*write)(GraphWriter&);
};

// Return the rows of each family.
std::vector<NamedRecipe> ProductRecipes();
std::vector<NamedRecipe> ImageRecipes();
std::vector<NamedRecipe> MovementRecipes();
std::vector<NamedRecipe> NormRecipes();
std::vector<NamedRecipe> OtherRecipes();

// Writes a node of the operator from its schema. Adds nothing if ONNX has no
// schema for it.
void WriteFromSchema(GraphWriter& writer, const std::string& op);

// Tries to add one node of any operator of the import table, up to a few
// times. Returns whether one was added.
bool AddRandomNode(GraphWriter& writer);

// The floating types, and the integers that arithmetic takes.
const std::vector<int>& FloatingTypes();
const std::vector<int>& AllTypes();

}  // namespace gpupool::engine::fuzz
