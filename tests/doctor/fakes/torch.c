/* c10::warn() */
void _ZN3c104warnEv(void) {}
