// Where the checkout and its build are. They are defined in folders.cpp alone, so that every other object is the same in
// each checkout and a compiler cache serves all of them.
#pragma once

extern const char* const kSourceFolder;
extern const char* const kBinaryFolder;
