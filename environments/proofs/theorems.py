# ruff: noqa: E501 - statements and proofs are Coq, on lines of their own length
"""The hand-made theorems: statement, lemmas that lead to it, and a proof.

A proof is the text that the golden solution submits after the fixed header. Lemmas (`steps`) are stated by the task; each that is
proved earns a part of the points even if the theorem is not.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Theorem:
    name: str
    family: str
    level: str
    statement: str
    proof: str
    needs: str = "Lia Arith"
    defs: str = ""
    steps: dict[str, str] = field(default_factory=dict)
    """Name -> statement of each lemma of the ladder; the proofs are in `proof`."""
    said: str = ""
    """The statement in words."""


NAT_SUM = "Fixpoint sum_to (n : nat) : nat := match n with O => O | S m => S m + sum_to m end."
TREE = """Inductive tree : Type := Leaf : tree | Node : tree -> nat -> tree -> tree.
Fixpoint mirror (t : tree) : tree := match t with Leaf => Leaf | Node l x r => Node (mirror r) x (mirror l) end.
Fixpoint size (t : tree) : nat := match t with Leaf => 0 | Node l _ r => S (size l + size r) end.
Fixpoint height (t : tree) : nat := match t with Leaf => 0 | Node l _ r => S (Nat.max (height l) (height r)) end.
Fixpoint flatten (t : tree) : list nat := match t with Leaf => nil | Node l x r => flatten l ++ x :: flatten r end."""
INSERTION = """Fixpoint insert (x : nat) (l : list nat) : list nat :=
  match l with nil => x :: nil | y :: r => if x <=? y then x :: y :: r else y :: insert x r end.
Fixpoint sort (l : list nat) : list nat := match l with nil => nil | x :: r => insert x (sort r) end.
Fixpoint sorted (l : list nat) : Prop :=
  match l with nil => True | x :: r => (match r with nil => True | y :: _ => x <= y end) /\\ sorted r end.
Fixpoint count (x : nat) (l : list nat) : nat := match l with nil => 0 | y :: r => (if x =? y then 1 else 0) + count x r end."""
FIB = """Fixpoint fib (n : nat) : nat := match n with O => 0 | S m => match m with O => 1 | S k => fib m + fib k end end.
Fixpoint fib_sum (n : nat) : nat := match n with O => fib 0 | S m => fib (S m) + fib_sum m end."""
MACHINE = """Inductive expr : Type := Num : nat -> expr | Plus : expr -> expr -> expr | Times : expr -> expr -> expr.
Inductive instr : Type := Push : nat -> instr | Add : instr | Mul : instr.
Fixpoint eval (e : expr) : nat :=
  match e with Num n => n | Plus a b => eval a + eval b | Times a b => eval a * eval b end.
Fixpoint compile (e : expr) : list instr :=
  match e with Num n => Push n :: nil | Plus a b => compile a ++ compile b ++ Add :: nil
  | Times a b => compile a ++ compile b ++ Mul :: nil end.
Fixpoint run (p : list instr) (s : list nat) : list nat :=
  match p with
  | nil => s
  | Push n :: r => run r (n :: s)
  | Add :: r => match s with b :: a :: t => run r (a + b :: t) | _ => run r s end
  | Mul :: r => match s with b :: a :: t => run r (a * b :: t) | _ => run r s end
  end."""
SIMPLIFY = (
    MACHINE.partition("Inductive instr")[0]
    + """
Fixpoint eval (e : expr) : nat :=
  match e with Num n => n | Plus a b => eval a + eval b | Times a b => eval a * eval b end.
Fixpoint fold_zero (e : expr) : expr :=
  match e with
  | Num n => Num n
  | Plus a b => match fold_zero a, fold_zero b with Num 0, e2 => e2 | e1, Num 0 => e1 | e1, e2 => Plus e1 e2 end
  | Times a b => Times (fold_zero a) (fold_zero b)
  end."""
)
PARITY = """Inductive ev : nat -> Prop := ev_0 : ev 0 | ev_SS : forall n, ev n -> ev (S (S n)).
Definition double (n : nat) : nat := n + n."""
BITS = """Fixpoint value (l : list bool) : nat := match l with nil => 0 | b :: r => (if b then 1 else 0) + 2 * value r end.
Fixpoint incr (l : list bool) : list bool :=
  match l with nil => true :: nil | false :: r => true :: r | true :: r => false :: incr r end."""
STAR = """Inductive star {A : Type} (R : A -> A -> Prop) : A -> A -> Prop :=
| star_refl : forall x, star R x x
| star_step : forall x y z, R x y -> star R y z -> star R x z."""
SUBSEQ = """Inductive subseq {A : Type} : list A -> list A -> Prop :=
| sub_nil : subseq nil nil
| sub_skip : forall x a b, subseq a b -> subseq a (x :: b)
| sub_take : forall x a b, subseq a b -> subseq (x :: a) (x :: b)."""

T = Theorem
HANDMADE = (
    # -- logic -----------------------------------------------------------------------------------------------------------------
    T(
        "and-comm",
        "logic",
        "easy",
        "forall P Q : Prop, P /\\ Q -> Q /\\ P",
        "Theorem main_goal : forall P Q : Prop, P /\\ Q -> Q /\\ P.\nProof. tauto. Qed.",
        "",
    ),
    T(
        "or-and-distributes",
        "logic",
        "easy",
        "forall P Q R : Prop, P \\/ (Q /\\ R) <-> (P \\/ Q) /\\ (P \\/ R)",
        "Theorem main_goal : forall P Q R : Prop, P \\/ (Q /\\ R) <-> (P \\/ Q) /\\ (P \\/ R).\nProof. tauto. Qed.",
        "",
    ),
    T(
        "contraposition",
        "logic",
        "easy",
        "forall P Q : Prop, (P -> Q) -> ~ Q -> ~ P",
        "Theorem main_goal : forall P Q : Prop, (P -> Q) -> ~ Q -> ~ P.\nProof. tauto. Qed.",
        "",
    ),
    T(
        "not-not-excluded-middle",
        "logic",
        "easy",
        "forall P : Prop, ~ ~ (P \\/ ~ P)",
        "Theorem main_goal : forall P : Prop, ~ ~ (P \\/ ~ P).\nProof. tauto. Qed.",
        "",
        said="without classical axioms",
    ),
    T(
        "peirce-to-excluded-middle",
        "logic",
        "medium",
        "(forall P Q : Prop, ((P -> Q) -> P) -> P) -> forall P : Prop, P \\/ ~ P",
        "Theorem main_goal : (forall P Q : Prop, ((P -> Q) -> P) -> P) -> forall P : Prop, P \\/ ~ P.\nProof. intros peirce P. apply (peirce (P \\/ ~ P) False). tauto. Qed.",
        "",
    ),
    T(
        "double-negation-to-peirce",
        "logic",
        "medium",
        "(forall P : Prop, ~ ~ P -> P) -> forall P Q : Prop, ((P -> Q) -> P) -> P",
        "Theorem main_goal : (forall P : Prop, ~ ~ P -> P) -> forall P Q : Prop, ((P -> Q) -> P) -> P.\nProof. intros dn P Q h. apply dn. tauto. Qed.",
        "",
    ),
    T(
        "no-barber",
        "logic",
        "medium",
        "forall (A : Type) (shaves : A -> A -> Prop), ~ exists b, forall x, shaves b x <-> ~ shaves x x",
        "Theorem main_goal : forall (A : Type) (shaves : A -> A -> Prop), ~ exists b, forall x, shaves b x <-> ~ shaves x x.\nProof. intros A s [b h]. specialize (h b). tauto. Qed.",
        "",
        said="there is no barber who shaves exactly those who do not shave themselves",
    ),
    T(
        "cantor",
        "logic",
        "hard",
        "forall (A : Type) (f : A -> A -> Prop), exists P : A -> Prop, forall x, f x <> P",
        "Theorem main_goal : forall (A : Type) (f : A -> A -> Prop), exists P : A -> Prop, forall x, f x <> P.\nProof.\n  intros A f. exists (fun x => ~ f x x). intros x h.\n  assert (k : f x x <-> ~ f x x).\n  { change (f x x <-> (fun x => ~ f x x) x). rewrite <- h. tauto. }\n  tauto.\nQed.",
        "",
        said="no function from a type onto its predicates",
    ),
    T(
        "exists-forall",
        "logic",
        "easy",
        "forall (A B : Type) (R : A -> B -> Prop), (exists x, forall y, R x y) -> forall y, exists x, R x y",
        "Theorem main_goal : forall (A B : Type) (R : A -> B -> Prop), (exists x, forall y, R x y) -> forall y, exists x, R x y.\nProof. intros A B R [x h] y. exists x. apply h. Qed.",
        "",
    ),
    T(
        "leibniz-symmetric",
        "logic",
        "medium",
        "forall (A : Type) (x y : A), (forall P : A -> Prop, P x -> P y) -> forall P : A -> Prop, P y -> P x",
        "Theorem main_goal : forall (A : Type) (x y : A), (forall P : A -> Prop, P x -> P y) -> forall P : A -> Prop, P y -> P x.\nProof. intros A x y h P. apply (h (fun z => P z -> P x)). auto. Qed.",
        "",
    ),
    # -- natural numbers ---------------------------------------------------------------------------------------------------------
    T(
        "plus-n-zero",
        "induction",
        "easy",
        "forall n : nat, n + 0 = n",
        "Theorem main_goal : forall n : nat, n + 0 = n.\nProof. induction n; simpl; congruence. Qed.",
        "",
    ),
    T(
        "plus-comm",
        "induction",
        "easy",
        "forall n m : nat, n + m = m + n",
        "Theorem main_goal : forall n m : nat, n + m = m + n.\nProof. intros. lia. Qed.",
    ),
    T(
        "sum-of-naturals",
        "induction",
        "easy",
        "forall n : nat, 2 * sum_to n = n * (n + 1)",
        "Theorem main_goal : forall n : nat, 2 * sum_to n = n * (n + 1).\nProof. induction n; simpl sum_to in *; nia. Qed.",
        defs=NAT_SUM,
    ),
    T(
        "even-or-odd",
        "induction",
        "easy",
        "forall n : nat, exists k : nat, n = 2 * k \\/ n = 2 * k + 1",
        "Theorem main_goal : forall n : nat, exists k : nat, n = 2 * k \\/ n = 2 * k + 1.\nProof.\n  induction n as [|n [k [h|h]]].\n  - exists 0. lia.\n  - exists k. lia.\n  - exists (S k). lia.\nQed.",
    ),
    T(
        "ev-iff-double",
        "induction",
        "medium",
        "forall n : nat, ev n <-> exists k, n = double k",
        "Theorem step_1 : forall k : nat, ev (double k).\nProof. unfold double. induction k; simpl; [constructor|]. rewrite Nat.add_comm. simpl. constructor. exact IHk. Qed.\nTheorem step_2 : forall n : nat, ev n -> exists k, n = double k.\nProof. unfold double. induction 1 as [|n h [k e]]; [exists 0|exists (S k)]; lia. Qed.\nTheorem main_goal : forall n : nat, ev n <-> exists k, n = double k.\nProof. intros n. split. apply step_2. intros [k ->]. apply step_1. Qed.",
        defs=PARITY,
        steps={"step_1": "forall k : nat, ev (double k)", "step_2": "forall n : nat, ev n -> exists k, n = double k"},
    ),
    T(
        "ev-sum",
        "induction",
        "medium",
        "forall n m : nat, ev n -> ev m -> ev (n + m)",
        "Theorem main_goal : forall n m : nat, ev n -> ev m -> ev (n + m).\nProof. intros n m h k. induction h; simpl; [assumption|constructor; assumption]. Qed.",
        defs=PARITY,
    ),
    T(
        "one-is-not-even",
        "induction",
        "easy",
        "~ ev 1",
        "Theorem main_goal : ~ ev 1.\nProof. intro h. inversion h. Qed.",
        "",
        defs=PARITY,
    ),
    T(
        "strong-induction",
        "induction",
        "medium",
        "forall P : nat -> Prop, (forall n, (forall k, k < n -> P k) -> P n) -> forall n, P n",
        "Theorem main_goal : forall P : nat -> Prop, (forall n, (forall k, k < n -> P k) -> P n) -> forall n, P n.\nProof.\n  intros P h n. assert (k : forall m, m <= n -> P m).\n  { induction n; intros m le; apply h; intros k lt; [lia|apply IHn; lia]. }\n  apply k. lia.\nQed.",
    ),
    T(
        "well-ordering",
        "induction",
        "hard",
        "forall P : nat -> Prop, (forall n, P n \\/ ~ P n) -> (exists n, P n) -> exists m, P m /\\ forall k, k < m -> ~ P k",
        "Theorem step_1 : forall P : nat -> Prop, (forall n, P n \\/ ~ P n) -> forall n, (exists m, m < n /\\ P m /\\ forall k, k < m -> ~ P k) \\/ (forall k, k < n -> ~ P k).\nProof.\n  intros P dec. induction n as [|n [[m [lt h]]|h]].\n  - right. intros k lt. lia.\n  - left. exists m. split; [lia|exact h].\n  - destruct (dec n) as [p|p].\n    + left. exists n. split; [lia|]. split; assumption.\n    + right. intros k lt. destruct (Nat.eq_dec k n) as [->|ne]; [exact p|apply h; lia].\nQed.\nTheorem main_goal : forall P : nat -> Prop, (forall n, P n \\/ ~ P n) -> (exists n, P n) -> exists m, P m /\\ forall k, k < m -> ~ P k.\nProof.\n  intros P dec [n p]. destruct (step_1 P dec (S n)) as [[m [_ h]]|h].\n  - exists m. exact h.\n  - exfalso. apply (h n); [lia|exact p].\nQed.",
        steps={
            "step_1": "forall P : nat -> Prop, (forall n, P n \\/ ~ P n) -> forall n, (exists m, m < n /\\ P m /\\ forall k, k < m -> ~ P k) \\/ (forall k, k < n -> ~ P k)"
        },
    ),
    T(
        "division",
        "induction",
        "medium",
        "forall b a : nat, 0 < b -> exists q r, a = b * q + r /\\ r < b",
        "Theorem main_goal : forall b a : nat, 0 < b -> exists q r, a = b * q + r /\\ r < b.\nProof.\n  intros b a pos. induction a as [|a [q [r [e lt]]]].\n  - exists 0, 0. lia.\n  - destruct (Nat.eq_dec (S r) b) as [eq|ne].\n    + exists (S q), 0. nia.\n    + exists q, (S r). lia.\nQed.",
    ),
    T(
        "power-beats-line",
        "induction",
        "medium",
        "forall n : nat, n < 2 ^ n",
        "Theorem main_goal : forall n : nat, n < 2 ^ n.\nProof. induction n; simpl; lia. Qed.",
    ),
    T(
        "square-odd",
        "induction",
        "medium",
        "forall n : nat, (exists k, n * n = 2 * k) -> exists k, n = 2 * k",
        "Theorem step_1 : forall n : nat, exists k : nat, n = 2 * k \\/ n = 2 * k + 1.\nProof.\n  induction n as [|n [k [h|h]]]; [exists 0|exists k|exists (S k)]; lia.\nQed.\nTheorem main_goal : forall n : nat, (exists k, n * n = 2 * k) -> exists k, n = 2 * k.\nProof. intros n [k e]. destruct (step_1 n) as [j [h|h]]; [exists j; exact h|]. subst n. exfalso. nia. Qed.",
        steps={"step_1": "forall n : nat, exists k : nat, n = 2 * k \\/ n = 2 * k + 1"},
        said="if the square is even, so is the number",
    ),
    T(
        "root-two-irrational",
        "induction",
        "hard",
        "forall p q : nat, q <> 0 -> p * p <> 2 * (q * q)",
        "Theorem step_1 : forall n : nat, (exists k, n * n = 2 * k) -> exists k, n = 2 * k.\nProof.\n  intros n [k e].\n  assert (h : exists j, n = 2 * j \\/ n = 2 * j + 1).\n  { clear. induction n as [|n [j [h|h]]]; [exists 0|exists j|exists (S j)]; lia. }\n  destruct h as [j [h|h]]; [exists j; exact h|]. subst n. exfalso. nia.\nQed.\nTheorem step_2 : forall n p q : nat, p <= n -> q <> 0 -> p * p <> 2 * (q * q).\nProof.\n  induction n; intros p q le ne e.\n  - assert (p = 0) by lia. subst p. nia.\n  - destruct (step_1 p) as [a ha]; [exists (q * q); lia|].\n    destruct (step_1 q) as [b hb]; [exists (a * a); subst p; nia|].\n    subst p q. apply (IHn a b); nia.\nQed.\nTheorem main_goal : forall p q : nat, q <> 0 -> p * p <> 2 * (q * q).\nProof. intros p q. apply (step_2 p). lia. Qed.",
        steps={
            "step_1": "forall n : nat, (exists k, n * n = 2 * k) -> exists k, n = 2 * k",
            "step_2": "forall n p q : nat, p <= n -> q <> 0 -> p * p <> 2 * (q * q)",
        },
        said="the square root of two is irrational",
    ),
    T(
        "fibonacci-sum",
        "induction",
        "medium",
        "forall n : nat, fib_sum n + 1 = fib (n + 2)",
        "Theorem main_goal : forall n : nat, fib_sum n + 1 = fib (n + 2).\nProof.\n  assert (step : forall n, fib (S (S n)) = fib (S n) + fib n) by reflexivity.\n  induction n; [reflexivity|].\n  replace (S n + 2) with (S (S (S n))) by lia. replace (n + 2) with (S (S n)) in IHn by lia.\n  rewrite step. change (fib_sum (S n)) with (fib (S n) + fib_sum n). lia.\nQed.",
        defs=FIB,
    ),
    T(
        "fibonacci-positive",
        "induction",
        "medium",
        "forall n : nat, 0 < fib (S n)",
        "Theorem step_1 : forall n : nat, 0 < fib (S n) /\\ 0 < fib (S (S n)).\nProof.\n  induction n as [|n [a b]]; [split; simpl; lia|]. split; [exact b|].\n  change (fib (S (S (S n)))) with (fib (S (S n)) + fib (S n)). lia.\nQed.\nTheorem main_goal : forall n : nat, 0 < fib (S n).\nProof. intros n. apply step_1. Qed.",
        defs=FIB,
        steps={"step_1": "forall n : nat, 0 < fib (S n) /\\ 0 < fib (S (S n))"},
    ),
    T(
        "pigeonhole",
        "lists",
        "hard",
        "forall (l : list nat) (n : nat), length l > n -> (forall x, In x l -> x < n) -> ~ NoDup l",
        "Theorem step_1 : forall (n : nat) (l : list nat), NoDup l -> (forall x, In x l -> x < n) -> length l <= n.\nProof.\n  intros n l nd h. rewrite <- (length_seq n 0). apply NoDup_incl_length; [exact nd|].\n  intros x i. apply in_seq. specialize (h x i). lia.\nQed.\nTheorem main_goal : forall (l : list nat) (n : nat), length l > n -> (forall x, In x l -> x < n) -> ~ NoDup l.\nProof. intros l n gt h nd. pose proof (step_1 n l nd h). lia. Qed.",
        "Lia Arith List",
        steps={"step_1": "forall (n : nat) (l : list nat), NoDup l -> (forall x, In x l -> x < n) -> length l <= n"},
    ),
    # -- lists ---------------------------------------------------------------------------------------------------------------------
    T(
        "app-assoc",
        "lists",
        "easy",
        "forall (A : Type) (a b c : list A), (a ++ b) ++ c = a ++ (b ++ c)",
        "Theorem main_goal : forall (A : Type) (a b c : list A), (a ++ b) ++ c = a ++ (b ++ c).\nProof. induction a; intros; simpl; congruence. Qed.",
        "List",
    ),
    T(
        "rev-app",
        "lists",
        "medium",
        "forall (A : Type) (a b : list A), rev (a ++ b) = rev b ++ rev a",
        "Theorem main_goal : forall (A : Type) (a b : list A), rev (a ++ b) = rev b ++ rev a.\nProof. induction a; intros; simpl; [rewrite app_nil_r; reflexivity|]. rewrite IHa, app_assoc. reflexivity. Qed.",
        "List",
    ),
    T(
        "rev-involutive",
        "lists",
        "medium",
        "forall (A : Type) (l : list A), rev (rev l) = l",
        "Theorem step_1 : forall (A : Type) (a : list A) (x : A), rev (a ++ x :: nil) = x :: rev a.\nProof. induction a; intros; simpl; [reflexivity|]. rewrite IHa. reflexivity. Qed.\nTheorem main_goal : forall (A : Type) (l : list A), rev (rev l) = l.\nProof. induction l; simpl; [reflexivity|]. rewrite step_1, IHl. reflexivity. Qed.",
        "List",
        steps={"step_1": "forall (A : Type) (a : list A) (x : A), rev (a ++ x :: nil) = x :: rev a"},
    ),
    T(
        "map-map",
        "lists",
        "easy",
        "forall (A B C : Type) (f : A -> B) (g : B -> C) (l : list A), map g (map f l) = map (fun x => g (f x)) l",
        "Theorem main_goal : forall (A B C : Type) (f : A -> B) (g : B -> C) (l : list A), map g (map f l) = map (fun x => g (f x)) l.\nProof. induction l; simpl; congruence. Qed.",
        "List",
    ),
    T(
        "filter-filter",
        "lists",
        "medium",
        "forall (A : Type) (p q : A -> bool) (l : list A), filter p (filter q l) = filter (fun x => andb (q x) (p x)) l",
        "Theorem main_goal : forall (A : Type) (p q : A -> bool) (l : list A), filter p (filter q l) = filter (fun x => andb (q x) (p x)) l.\nProof. induction l as [|x l h]; simpl; [reflexivity|]. destruct (q x); simpl; [|exact h]. destruct (p x); simpl; congruence. Qed.",
        "List",
    ),
    T(
        "fold-left-right",
        "lists",
        "hard",
        "forall (l : list nat) (n : nat), fold_left Nat.add l n = fold_right Nat.add n l",
        "Theorem step_1 : forall (l : list nat) (n m : nat), fold_right Nat.add (n + m) l = n + fold_right Nat.add m l.\nProof. induction l; intros; simpl; [reflexivity|]. rewrite IHl. lia. Qed.\nTheorem main_goal : forall (l : list nat) (n : nat), fold_left Nat.add l n = fold_right Nat.add n l.\nProof. induction l; intros; simpl; [reflexivity|]. rewrite IHl, Nat.add_comm, step_1. reflexivity. Qed.",
        "Lia Arith List",
        steps={"step_1": "forall (l : list nat) (n m : nat), fold_right Nat.add (n + m) l = n + fold_right Nat.add m l"},
    ),
    T(
        "in-app",
        "lists",
        "easy",
        "forall (A : Type) (x : A) (a b : list A), In x (a ++ b) <-> In x a \\/ In x b",
        "Theorem main_goal : forall (A : Type) (x : A) (a b : list A), In x (a ++ b) <-> In x a \\/ In x b.\nProof. induction a; simpl; intros; [tauto|]. rewrite IHa. tauto. Qed.",
        "List",
    ),
    T(
        "subsequence-transitive",
        "lists",
        "hard",
        "forall (A : Type) (a b c : list A), subseq a b -> subseq b c -> subseq a c",
        "Theorem main_goal : forall (A : Type) (a b c : list A), subseq a b -> subseq b c -> subseq a c.\nProof.\n  intros A a b c h k. revert a h. induction k; intros l h.\n  - exact h.\n  - constructor. apply IHk. exact h.\n  - inversion h; subst; constructor; apply IHk; assumption.\nQed.",
        "List",
        defs=SUBSEQ,
    ),
    T(
        "subsequence-length",
        "lists",
        "medium",
        "forall (A : Type) (a b : list A), subseq a b -> length a <= length b",
        "Theorem main_goal : forall (A : Type) (a b : list A), subseq a b -> length a <= length b.\nProof. induction 1; simpl; lia. Qed.",
        "Lia Arith List",
        defs=SUBSEQ,
    ),
    T(
        "insertion-keeps-count",
        "programs",
        "medium",
        "forall (x : nat) (l : list nat), count x (sort l) = count x l",
        "Theorem step_1 : forall (x y : nat) (l : list nat), count x (insert y l) = count x (y :: l).\nProof. induction l as [|z l h]; simpl in *; [reflexivity|]. destruct (y <=? z); simpl; [reflexivity|]. rewrite h. lia. Qed.\nTheorem main_goal : forall (x : nat) (l : list nat), count x (sort l) = count x l.\nProof. induction l; simpl; [reflexivity|]. rewrite step_1. simpl. congruence. Qed.",
        "Lia Arith List",
        defs=INSERTION,
        steps={"step_1": "forall (x y : nat) (l : list nat), count x (insert y l) = count x (y :: l)"},
    ),
    T(
        "insertion-sorts",
        "programs",
        "hard",
        "forall l : list nat, sorted (sort l)",
        "Theorem step_1 : forall (x : nat) (l : list nat), sorted l -> sorted (insert x l).\nProof.\n  induction l as [|y l h]; simpl; [tauto|]. intros [a b].\n  destruct (x <=? y) eqn:e.\n  - apply Nat.leb_le in e. simpl. tauto.\n  - apply Nat.leb_gt in e. specialize (h b). simpl. split; [|exact h].\n    destruct l as [|z l]; simpl in *; [lia|]. destruct (x <=? z); lia.\nQed.\nTheorem main_goal : forall l : list nat, sorted (sort l).\nProof. induction l; simpl; [exact I|]. apply step_1. exact IHl. Qed.",
        "Lia Arith List",
        defs=INSERTION,
        steps={"step_1": "forall (x : nat) (l : list nat), sorted l -> sorted (insert x l)"},
        said="insertion sort gives a sorted list",
    ),
    # -- programs and structures -----------------------------------------------------------------------------------------------------
    T(
        "mirror-involutive",
        "programs",
        "easy",
        "forall t : tree, mirror (mirror t) = t",
        "Theorem main_goal : forall t : tree, mirror (mirror t) = t.\nProof. induction t; simpl; congruence. Qed.",
        "Arith List",
        defs=TREE,
    ),
    T(
        "mirror-flatten",
        "programs",
        "medium",
        "forall t : tree, flatten (mirror t) = rev (flatten t)",
        "Theorem main_goal : forall t : tree, flatten (mirror t) = rev (flatten t).\nProof. induction t; simpl; [reflexivity|]. rewrite rev_app_distr. simpl. rewrite IHt1, IHt2, <- app_assoc. reflexivity. Qed.",
        "Arith List",
        defs=TREE,
    ),
    T(
        "size-is-length",
        "programs",
        "easy",
        "forall t : tree, length (flatten t) = size t",
        "Theorem main_goal : forall t : tree, length (flatten t) = size t.\nProof. induction t; simpl; [reflexivity|]. rewrite length_app. simpl. lia. Qed.",
        "Lia Arith List",
        defs=TREE,
    ),
    T(
        "size-below-power",
        "programs",
        "hard",
        "forall t : tree, size t < 2 ^ height t",
        "Theorem step_1 : forall n m : nat, 2 ^ n + 2 ^ m <= 2 ^ S (Nat.max n m).\nProof.\n  intros n m. simpl.\n  pose proof (Nat.pow_le_mono_r 2 n (Nat.max n m)). pose proof (Nat.pow_le_mono_r 2 m (Nat.max n m)). lia.\nQed.\nTheorem main_goal : forall t : tree, size t < 2 ^ height t.\nProof. induction t; [simpl; lia|]. pose proof (step_1 (height t1) (height t2)). cbn [size height]. lia. Qed.",
        "Lia Arith List",
        defs=TREE,
        steps={"step_1": "forall n m : nat, 2 ^ n + 2 ^ m <= 2 ^ S (Nat.max n m)"},
    ),
    T(
        "compiler-correct",
        "programs",
        "hard",
        "forall e : expr, run (compile e) nil = eval e :: nil",
        "Theorem step_1 : forall (p q : list instr) (s : list nat), run (p ++ q) s = run q (run p s).\nProof.\n  induction p as [|i p h]; intros; simpl; [reflexivity|]. destruct i; simpl; [apply h| |];\n  destruct s as [|b [|a t]]; apply h.\nQed.\nTheorem step_2 : forall (e : expr) (s : list nat), run (compile e) s = eval e :: s.\nProof. induction e; intros; simpl; [reflexivity| |]; rewrite !step_1, IHe1, IHe2; reflexivity. Qed.\nTheorem main_goal : forall e : expr, run (compile e) nil = eval e :: nil.\nProof. intros. apply step_2. Qed.",
        "Arith List",
        defs=MACHINE,
        steps={
            "step_1": "forall (p q : list instr) (s : list nat), run (p ++ q) s = run q (run p s)",
            "step_2": "forall (e : expr) (s : list nat), run (compile e) s = eval e :: s",
        },
        said="a compiler for a stack machine is correct",
    ),
    T(
        "constant-folding",
        "programs",
        "hard",
        "forall e : expr, eval (fold_zero e) = eval e",
        "Theorem main_goal : forall e : expr, eval (fold_zero e) = eval e.\nProof.\n  induction e; simpl; [reflexivity| |congruence].\n  destruct (fold_zero e1) as [[|n]| |]; destruct (fold_zero e2) as [[|m]| |]; simpl in *; lia.\nQed.",
        "Lia Arith",
        defs=SIMPLIFY,
    ),
    T(
        "binary-increment",
        "programs",
        "medium",
        "forall l : list bool, value (incr l) = S (value l)",
        "Theorem main_goal : forall l : list bool, value (incr l) = S (value l).\nProof. induction l as [|[] l h]; simpl; [reflexivity| |reflexivity]. lia. Qed.",
        "Lia Arith List",
        defs=BITS,
    ),
    T(
        "star-transitive",
        "programs",
        "medium",
        "forall (A : Type) (R : A -> A -> Prop) (x y z : A), star R x y -> star R y z -> star R x z",
        "Theorem main_goal : forall (A : Type) (R : A -> A -> Prop) (x y z : A), star R x y -> star R y z -> star R x z.\nProof. intros A R x y z h k. induction h; [exact k|]. econstructor; [eassumption|]. auto. Qed.",
        "",
        defs=STAR,
    ),
    T(
        "diamond-to-strip",
        "programs",
        "hard",
        "forall (A : Type) (R : A -> A -> Prop), (forall x y z, R x y -> R x z -> exists w, R y w /\\ R z w) -> forall x y z, R x y -> star R x z -> exists w, star R y w /\\ R z w",
        "Theorem main_goal : forall (A : Type) (R : A -> A -> Prop), (forall x y z, R x y -> R x z -> exists w, R y w /\\ R z w) -> forall x y z, R x y -> star R x z -> exists w, star R y w /\\ R z w.\nProof.\n  intros A R d x y z h k. revert y h. induction k as [x|x u z r k ih]; intros y h.\n  - exists y. split; [constructor|exact h].\n  - destruct (d x y u h r) as [v [a b]]. destruct (ih v b) as [w [c e]].\n    exists w. split; [econstructor; eassumption|exact e].\nQed.",
        "",
        defs=STAR,
        said="one step against many, in a relation with the diamond property",
    ),
    T(
        "confluence",
        "programs",
        "hard",
        "forall (A : Type) (R : A -> A -> Prop), (forall x y z, R x y -> R x z -> exists w, R y w /\\ R z w) -> forall x y z, star R x y -> star R x z -> exists w, star R y w /\\ star R z w",
        "Theorem step_1 : forall (A : Type) (R : A -> A -> Prop), (forall x y z, R x y -> R x z -> exists w, R y w /\\ R z w) -> forall x y z, R x y -> star R x z -> exists w, star R y w /\\ R z w.\nProof.\n  intros A R d x y z h k. revert y h. induction k as [x|x u z r k ih]; intros y h.\n  - exists y. split; [constructor|exact h].\n  - destruct (d x y u h r) as [v [a b]]. destruct (ih v b) as [w [c e]].\n    exists w. split; [econstructor; eassumption|exact e].\nQed.\nTheorem main_goal : forall (A : Type) (R : A -> A -> Prop), (forall x y z, R x y -> R x z -> exists w, R y w /\\ R z w) -> forall x y z, star R x y -> star R x z -> exists w, star R y w /\\ star R z w.\nProof.\n  intros A R d x y z h. revert z. induction h as [x|x u y r h ih]; intros z k.\n  - exists z. split; [exact k|constructor].\n  - destruct (step_1 A R d x u z r k) as [v [a b]]. destruct (ih v a) as [w [c e]].\n    exists w. split; [exact c|econstructor; eassumption].\nQed.",
        "",
        defs=STAR,
        steps={
            "step_1": "forall (A : Type) (R : A -> A -> Prop), (forall x y z, R x y -> R x z -> exists w, R y w /\\ R z w) -> forall x y z, R x y -> star R x z -> exists w, star R y w /\\ R z w"
        },
        said="a relation with the diamond property is confluent",
    ),
)
