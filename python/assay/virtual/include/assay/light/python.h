// The functions of Python's stable C interface that the light header uses, declared here so that no Python
// headers are needed and none are parsed: an extension finds the functions in the process that loads it.
//
// Object owns one reference. Every function here that calls Python holds the global interpreter lock while it
// does (Locked), so an extension may release the lock or start threads of its own.
#pragma once
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

extern "C" {
struct _object;
struct _ts;
struct PyMethodDef;
typedef struct _object PyObject;
#ifndef Py_PYTHON_H
typedef PyObject* (*PyCFunction)(PyObject*, PyObject*);
typedef enum { PyGILState_LOCKED, PyGILState_UNLOCKED } PyGILState_STATE;
struct PyMethodDef {
  const char* ml_name;
  PyCFunction ml_meth;
  int ml_flags;
  const char* ml_doc;
};
#define METH_VARARGS 0x0001
#define METH_KEYWORDS 0x0002
#endif
PyGILState_STATE PyGILState_Ensure(void);
void PyGILState_Release(PyGILState_STATE);
int PyGILState_Check(void);
struct _ts* PyEval_SaveThread(void);
void PyEval_RestoreThread(struct _ts*);
void Py_IncRef(PyObject*);
void Py_DecRef(PyObject*);
PyObject* Py_BuildValue(const char*, ...);
int PyObject_IsInstance(PyObject*, PyObject*);
int PyObject_IsTrue(PyObject*);
PyObject* PyObject_Str(PyObject*);
PyObject* PyObject_Repr(PyObject*);
PyObject* PyObject_Type(PyObject*);
PyObject* PyObject_GetAttrString(PyObject*, const char*);
int PyObject_SetAttrString(PyObject*, const char*, PyObject*);
PyObject* PyObject_CallObject(PyObject*, PyObject*);
PyObject* PyBool_FromLong(long);
PyObject* PyLong_FromLongLong(long long);
PyObject* PyLong_FromUnsignedLongLong(unsigned long long);
long long PyLong_AsLongLong(PyObject*);
unsigned long long PyLong_AsUnsignedLongLong(PyObject*);
PyObject* PyFloat_FromDouble(double);
double PyFloat_AsDouble(PyObject*);
PyObject* PyNumber_Index(PyObject*);
PyObject* PyNumber_Float(PyObject*);
PyObject* PyUnicode_FromStringAndSize(const char*, std::ptrdiff_t);
PyObject* PyUnicode_AsUTF8String(PyObject*);
int PyBytes_AsStringAndSize(PyObject*, char**, std::ptrdiff_t*);
PyObject* PyTuple_New(std::ptrdiff_t);
int PyTuple_SetItem(PyObject*, std::ptrdiff_t, PyObject*);
PyObject* PyTuple_GetItem(PyObject*, std::ptrdiff_t);
std::ptrdiff_t PyTuple_Size(PyObject*);
PyObject* PyList_New(std::ptrdiff_t);
int PyList_Append(PyObject*, PyObject*);
PyObject* PyDict_New(void);
int PyDict_SetItem(PyObject*, PyObject*, PyObject*);
PyObject* PyDict_GetItemString(PyObject*, const char*);
std::ptrdiff_t PyDict_Size(PyObject*);
PyObject* PyDict_Items(PyObject*);
PyObject* PyList_AsTuple(PyObject*);
PyObject* PySequence_GetItem(PyObject*, std::ptrdiff_t);
std::ptrdiff_t PySequence_Size(PyObject*);
int PySequence_Check(PyObject*);
PyObject* PySlice_New(PyObject*, PyObject*, PyObject*);
PyObject* PyCapsule_New(void*, const char*, void (*)(PyObject*));
void* PyCapsule_GetPointer(PyObject*, const char*);
PyObject* PyErr_Occurred(void);
void PyErr_Clear(void);
void PyErr_Fetch(PyObject**, PyObject**, PyObject**);
void PyErr_NormalizeException(PyObject**, PyObject**, PyObject**);
void PyErr_Restore(PyObject*, PyObject*, PyObject*);
void PyErr_SetString(PyObject*, const char*);
PyObject* PyImport_ImportModule(const char*);
}

namespace assay {

/// Holds the global interpreter lock for a scope, whether or not this thread held it before.
class Locked {
  PyGILState_STATE state_ = PyGILState_Ensure();

 public:
  Locked() = default;
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  ~Locked() { PyGILState_Release(state_); }
};

/// One owned reference to a Python object, or none.
class Object {
  PyObject* object_ = nullptr;

 public:
  Object() = default;
  explicit Object(PyObject* owned) : object_(owned) {}
  static Object borrowed(PyObject* object) {
    if (object) Py_IncRef(object);
    return Object(object);
  }
  Object(const Object& other) : object_(other.object_) {
    if (object_) {
      Locked lock;
      Py_IncRef(object_);
    }
  }
  Object(Object&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Object& operator=(Object other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Object() {
    if (object_) {
      Locked lock;
      Py_DecRef(object_);
    }
  }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }
};

/// What Python handed over when it bound this extension: an object whose attributes are the functions that
/// the light header calls (assay/virtual/extension_calls.py).
inline Object& callbacks() {
  static Object* object = new Object();  // never destroyed: Python may be gone when static objects are
  return *object;
}

inline std::string text_of(PyObject* string) {
  Object bytes(PyUnicode_AsUTF8String(string));
  char* data = nullptr;
  std::ptrdiff_t size = 0;
  if (!bytes || PyBytes_AsStringAndSize(bytes.get(), &data, &size) != 0) {
    PyErr_Clear();
    return {};
  }
  return {data, static_cast<std::size_t>(size)};
}

inline Object builtin(const char* name) {
  Object builtins(PyImport_ImportModule("builtins"));
  return Object(PyObject_GetAttrString(builtins.get(), name));
}

inline bool is_instance(PyObject* object, const char* builtin_type) {
  return PyObject_IsInstance(object, builtin(builtin_type).get()) == 1;
}

inline Object none() {
  return Object(Py_BuildValue(""));
}

inline bool is_none(PyObject* object) {
  return object == none().get();
}

[[noreturn]] void throw_python_error();

/// Calls a function of callbacks() with a tuple of arguments. Python's exception becomes a c10::Error.
inline Object call_back(const char* function, Object arguments) {
  if (!callbacks()) throw std::runtime_error("the extension was not loaded by Assay");
  Object callable(PyObject_GetAttrString(callbacks().get(), function));
  if (!callable) throw_python_error();
  Object result(PyObject_CallObject(callable.get(), arguments.get()));
  if (!result) throw_python_error();
  return result;
}

}  // namespace assay
